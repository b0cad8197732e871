/* RLP (Yellow Paper, B) into a buffer that grows: a list is opened, filled, and closed. */
#include <stdlib.h>
#include <string.h>

#include "native.h"

#define SHORT 56
#define STRING 0x80
#define LIST 0xc0

/* 0: there is room for so many bytes more. */
int buffer_grow(Buffer *buffer, size_t more) {
    if (buffer->failed) return -1;
    if (buffer->room - buffer->size >= more) return 0;
    size_t room = 2 * buffer->room + more;
    uint8_t *bytes = room < more ? NULL : realloc(buffer->bytes, room);
    if (bytes == NULL) {
        buffer->failed = 1;
        return -1;
    }
    buffer->bytes = bytes;
    buffer->room = room;
    return 0;
}

void buffer_put(Buffer *buffer, const uint8_t *bytes, size_t size) {
    if (size == 0 || buffer_grow(buffer, size) < 0) return;
    memcpy(buffer->bytes + buffer->size, bytes, size);
    buffer->size += size;
}

void buffer_free(Buffer *buffer) {
    free(buffer->bytes);
    *buffer = (Buffer){0};
}

/* Write what stands before so many bytes; return how long it is, HEAD_ROOM at most. */
size_t rlp_head(uint8_t *to, uint8_t kind, size_t size) {
    if (size < SHORT) {
        to[0] = (uint8_t)(kind + size);
        return 1;
    }
    size_t length = 0;
    for (size_t left = size; left > 0; left >>= 8) length++;
    to[0] = (uint8_t)((size_t)kind + SHORT - 1 + length);
    for (size_t place = 0; place < length; place++)
        to[1 + place] = (uint8_t)(size >> 8 * (length - 1 - place));
    return 1 + length;
}

void rlp_string(Buffer *buffer, const uint8_t *bytes, size_t size) {
    if (size != 1 || bytes[0] >= STRING) {
        uint8_t head[HEAD_ROOM];
        buffer_put(buffer, head, rlp_head(head, STRING, size));
    }
    buffer_put(buffer, bytes, size);
}

/* Begin a list, with room for the longest head; return where. */
size_t rlp_list_open(Buffer *buffer) {
    size_t opened = buffer->size;
    if (buffer_grow(buffer, HEAD_ROOM) == 0) buffer->size += HEAD_ROOM;
    return opened;
}

/* Put the head before what was written since, and move both to where the list was opened. */
void rlp_list_close(Buffer *buffer, size_t opened) {
    if (buffer->failed) return;
    uint8_t *at = buffer->bytes + opened;
    size_t size = buffer->size - opened - HEAD_ROOM;
    uint8_t head[HEAD_ROOM];
    size_t length = rlp_head(head, LIST, size);
    memcpy(at, head, length);
    memmove(at + length, at + HEAD_ROOM, size);
    buffer->size = opened + length + size;
}

/* Writes RLP (Yellow Paper, B) into a growing buffer: a list is opened, filled, and closed. */
#include <stdlib.h>
#include <string.h>

#include "native.h"

#define SHORT 56
#define STRING 0x80
#define LIST 0xc0

/* Make room for `more` bytes. Return -1 if there is no memory. */
int buffer_grow(Buffer *buffer, size_t more) {
    if (buffer->failed) return -1;
    if (buffer->capacity - buffer->size >= more) return 0;
    size_t capacity = 2 * buffer->capacity + more;
    uint8_t *bytes = capacity < more ? NULL : realloc(buffer->bytes, capacity);
    if (bytes == NULL) {
        buffer->failed = 1;
        return -1;
    }
    buffer->bytes = bytes;
    buffer->capacity = capacity;
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

/* Write the header of a payload of `size` bytes; return the length of the header, up to
 * MAX_HEADER_SIZE. */
size_t rlp_write_header(uint8_t *to, uint8_t kind, size_t size) {
    if (size < SHORT) {
        to[0] = (uint8_t)(kind + size);
        return 1;
    }
    size_t length = 0;
    for (size_t value = size; value > 0; value >>= 8) length++;
    to[0] = (uint8_t)((size_t)kind + SHORT - 1 + length);
    for (size_t at = 0; at < length; at++)
        to[1 + at] = (uint8_t)(size >> 8 * (length - 1 - at));
    return 1 + length;
}

void rlp_string(Buffer *buffer, const uint8_t *bytes, size_t size) {
    if (size != 1 || bytes[0] >= STRING) {
        uint8_t header[MAX_HEADER_SIZE];
        buffer_put(buffer, header, rlp_write_header(header, STRING, size));
    }
    buffer_put(buffer, bytes, size);
}

/* Begin a list, with room for the longest header; return its offset. */
size_t rlp_list_open(Buffer *buffer) {
    size_t start = buffer->size;
    if (buffer_grow(buffer, MAX_HEADER_SIZE) == 0) buffer->size += MAX_HEADER_SIZE;
    return start;
}

/* Write the header of the list at its offset, and move the payload behind the header. */
void rlp_list_close(Buffer *buffer, size_t start) {
    if (buffer->failed) return;
    uint8_t *list = buffer->bytes + start;
    size_t size = buffer->size - start - MAX_HEADER_SIZE;
    uint8_t header[MAX_HEADER_SIZE];
    size_t length = rlp_write_header(header, LIST, size);
    memcpy(list, header, length);
    memmove(list + length, list + MAX_HEADER_SIZE, size);
    buffer->size = start + length + size;
}

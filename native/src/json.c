/* Reads a subset of JSON, in which all texts are ASCII without escapes, there are no numbers, and each
 * field occurs once. The Python code handles all other responses. A cursor never moves beyond the end of
 * its text. */
#include <string.h>

#include "native.h"

/* The loops over the characters of a text use only bytes and no tables or branches, so that the compiler can
 * handle many characters at once. */

/* Return whether a character is a hex digit of either case. */
static inline uint8_t is_hex_digit(uint8_t digit) {
    return (uint8_t)((uint8_t)(digit - '0') < 10) | (uint8_t)((uint8_t)((digit | 0x20) - 'a') < 6);
}

/* Return the value of a hex digit; the result for another character has no meaning. */
static inline uint8_t parse_nibble(uint8_t digit) {
    return (uint8_t)((digit & 0x0f) + 9 * (digit >> 6));
}

static void skip_space(Cursor *cursor) {
    while (cursor->at < cursor->end && (*cursor->at == ' ' || *cursor->at == '\n' ||
                                        *cursor->at == '\r' || *cursor->at == '\t'))
        cursor->at++;
}

/* Skip white space and then `character`. Return 0 if another character follows. */
int json_accept(Cursor *cursor, char character) {
    skip_space(cursor);
    if (cursor->at == cursor->end || *cursor->at != character) return 0;
    cursor->at++;
    return 1;
}

int json_is_at_end(Cursor *cursor) {
    skip_space(cursor);
    return cursor->at == cursor->end;
}

/* Read a string of printable ASCII. It has no escapes, so the next quote ends it. */
int json_string(Cursor *cursor, Text *text) {
    if (!json_accept(cursor, '"')) return 0;
    const char *start = cursor->at;
    const char *quote = memchr(start, '"', (size_t)(cursor->end - start));
    if (quote == NULL) return 0;
    *text = (Text){start, (size_t)(quote - start)};
    cursor->at = quote + 1;
    uint8_t invalid = 0;
    for (size_t at = 0; at < text->size; at++) {
        uint8_t byte = (uint8_t)text->text[at];
        invalid |= (uint8_t)(byte < 0x20) | (uint8_t)(byte > 0x7e) | (uint8_t)(byte == '\\');
    }
    return !invalid;
}

/* Skip white space and then `literal`. Return 0 if something else follows. */
int json_literal(Cursor *cursor, const char *literal) {
    skip_space(cursor);
    size_t size = strlen(literal);
    if ((size_t)(cursor->end - cursor->at) < size || memcmp(cursor->at, literal, size) != 0)
        return 0;
    cursor->at += size;
    return 1;
}

/* Skip an unused value, which is a string or a literal. */
int json_skip(Cursor *cursor) {
    Text text;
    if (json_literal(cursor, "null") || json_literal(cursor, "true") ||
        json_literal(cursor, "false"))
        return 1;
    return json_string(cursor, &text);
}

/* Read the members of an object, or the elements of an array (`name` is then empty). */
int json_members(Cursor *cursor, int is_object, ReadMember read, void *into) {
    char close = is_object ? '}' : ']';
    if (!json_accept(cursor, is_object ? '{' : '[')) return 0;
    if (json_accept(cursor, close)) return 1;
    do {
        Text name = {NULL, 0};
        if (is_object && !(json_string(cursor, &name) && json_accept(cursor, ':'))) return 0;
        if (!read(cursor, name, into)) return 0;
    } while (json_accept(cursor, ','));
    return json_accept(cursor, close);
}

int text_equals(Text text, Text other) {
    return text.size == other.size &&
           (text.size == 0 || memcmp(text.text, other.text, text.size) == 0);
}

/* Return whether a text is `0x` and lower-case hex digits. */
int hex_is_lower(Text hex) {
    if (hex.size < 2 || hex.text[0] != '0' || hex.text[1] != 'x') return 0;
    uint8_t valid = 1;
    for (size_t at = 2; at < hex.size; at++) {
        uint8_t digit = (uint8_t)hex.text[at];
        valid &= (uint8_t)((uint8_t)(digit - '0') < 10) | (uint8_t)((uint8_t)(digit - 'a') < 6);
    }
    return valid;
}

/* Write the bytes of `0x` hex. Return 0 if the text is not hex, or has an odd number of digits. */
int hex_to_bytes(Text hex, uint8_t *restrict to) {
    if (hex.size < 2 || hex.size % 2 || hex.text[0] != '0' || hex.text[1] != 'x') return 0;
    const uint8_t *digits = (const uint8_t *)hex.text + 2;
    uint8_t valid = 1;
    for (size_t at = 0; at < hex.size / 2 - 1; at++) {
        uint8_t high = digits[2 * at], low = digits[2 * at + 1];
        valid &= is_hex_digit(high) & is_hex_digit(low);
        to[at] = (uint8_t)(parse_nibble(high) << 4 | parse_nibble(low));
    }
    return valid;
}

/* Read a quantity of at most 64 bits: `0x` and 1 to 16 digits. */
int hex_to_number(Text hex, uint64_t *number) {
    if (hex.size < 3 || hex.size > 18 || hex.text[0] != '0' || hex.text[1] != 'x') return 0;
    *number = 0;
    for (size_t at = 2; at < hex.size; at++) {
        uint8_t digit = (uint8_t)hex.text[at];
        if (!is_hex_digit(digit)) return 0;
        *number = *number << 4 | parse_nibble(digit);
    }
    return 1;
}

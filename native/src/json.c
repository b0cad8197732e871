/* Reads a subset of JSON, in which all texts are ASCII without escapes, there are no numbers, and each
 * field occurs once. The Python code handles all other responses. A cursor never moves beyond the end of
 * its text. */
#include <string.h>

#include "native.h"

/* The value of a hex digit of either case, plus 1; 0 for any other character. */
static const uint8_t DIGIT_VALUES[256] = {
    ['0'] = 1,  ['1'] = 2,  ['2'] = 3,  ['3'] = 4,  ['4'] = 5,  ['5'] = 6,  ['6'] = 7,  ['7'] = 8,
    ['8'] = 9,  ['9'] = 10, ['a'] = 11, ['b'] = 12, ['c'] = 13, ['d'] = 14, ['e'] = 15, ['f'] = 16,
    ['A'] = 11, ['B'] = 12, ['C'] = 13, ['D'] = 14, ['E'] = 15, ['F'] = 16,
};

/* Return the value of a hex digit, or a number above 15 for another character. */
static inline unsigned parse_nibble(char digit) { return DIGIT_VALUES[(uint8_t)digit] - 1U; }

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
    unsigned invalid = 0;
    for (size_t at = 0; at < text->size; at++) {
        uint8_t byte = (uint8_t)text->text[at];
        invalid |= (unsigned)(byte < 0x20) | (unsigned)(byte > 0x7e) | (unsigned)(byte == '\\');
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
    unsigned invalid = 0;
    for (size_t at = 2; at < hex.size; at++) {
        uint8_t digit = (uint8_t)hex.text[at];
        invalid |= !((uint8_t)(digit - '0') < 10 || (uint8_t)(digit - 'a') < 6);
    }
    return !invalid;
}

/* Write the bytes of `0x` hex. Return 0 if the text is not hex, or has an odd number of digits. */
int hex_to_bytes(Text hex, uint8_t *to) {
    if (hex.size < 2 || hex.size % 2 || hex.text[0] != '0' || hex.text[1] != 'x') return 0;
    unsigned invalid = 0;
    for (size_t at = 2; at < hex.size; at += 2) {
        unsigned high = parse_nibble(hex.text[at]), low = parse_nibble(hex.text[at + 1]);
        invalid |= high | low;
        *to++ = (uint8_t)(high << 4 | low);
    }
    return invalid <= 15;
}

/* Read a quantity of at most 64 bits: `0x` and 1 to 16 digits. */
int hex_to_number(Text hex, uint64_t *number) {
    if (hex.size < 3 || hex.size > 18 || hex.text[0] != '0' || hex.text[1] != 'x') return 0;
    *number = 0;
    for (size_t at = 2; at < hex.size; at++) {
        unsigned nibble = parse_nibble(hex.text[at]);
        if (nibble > 15) return 0;
        *number = *number << 4 | nibble;
    }
    return 1;
}

/* Reads JSON of the ordinary form: ASCII, no escapes, no numbers, each field once. Everything
 * else is left to the Python code. A cursor never moves beyond the end of its text. */
#include <string.h>

#include "native.h"

/* What a digit of either case is worth, and 1 more: 0 is no digit. */
static const uint8_t WORTH[256] = {
    ['0'] = 1,  ['1'] = 2,  ['2'] = 3,  ['3'] = 4,  ['4'] = 5,  ['5'] = 6,  ['6'] = 7,  ['7'] = 8,
    ['8'] = 9,  ['9'] = 10, ['a'] = 11, ['b'] = 12, ['c'] = 13, ['d'] = 14, ['e'] = 15, ['f'] = 16,
    ['A'] = 11, ['B'] = 12, ['C'] = 13, ['D'] = 14, ['E'] = 15, ['F'] = 16,
};

/* More than 15: no digit. */
static inline unsigned nibble_of(char digit) { return WORTH[(uint8_t)digit] - 1U; }

static void skip_space(Cursor *cursor) {
    while (cursor->at < cursor->end && (*cursor->at == ' ' || *cursor->at == '\n' ||
                                        *cursor->at == '\r' || *cursor->at == '\t'))
        cursor->at++;
}

/* Move behind a mark, and the space before it, if it is next. */
int json_take(Cursor *cursor, char mark) {
    skip_space(cursor);
    if (cursor->at == cursor->end || *cursor->at != mark) return 0;
    cursor->at++;
    return 1;
}

int json_is_done(Cursor *cursor) {
    skip_space(cursor);
    return cursor->at == cursor->end;
}

/* Read a string of printable ASCII without escapes; a quote ends it, since none can be escaped. */
int json_string(Cursor *cursor, Text *text) {
    if (!json_take(cursor, '"')) return 0;
    const char *start = cursor->at;
    const char *quote = memchr(start, '"', (size_t)(cursor->end - start));
    if (quote == NULL) return 0;
    *text = (Text){start, (size_t)(quote - start)};
    cursor->at = quote + 1;
    unsigned strange = 0;
    for (size_t at = 0; at < text->size; at++) {
        uint8_t byte = (uint8_t)text->text[at];
        strange |= (unsigned)(byte < 0x20) | (unsigned)(byte > 0x7e) | (unsigned)(byte == '\\');
    }
    return !strange;
}

/* Move behind a literal, if it is next. */
int json_literal(Cursor *cursor, const char *literal) {
    skip_space(cursor);
    size_t size = strlen(literal);
    if ((size_t)(cursor->end - cursor->at) < size || memcmp(cursor->at, literal, size) != 0)
        return 0;
    cursor->at += size;
    return 1;
}

/* Move behind a value that is not used: a string or a literal. */
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
    if (!json_take(cursor, is_object ? '{' : '[')) return 0;
    if (json_take(cursor, close)) return 1;
    do {
        Text name = {NULL, 0};
        if (is_object && !(json_string(cursor, &name) && json_take(cursor, ':'))) return 0;
        if (!read(cursor, name, into)) return 0;
    } while (json_take(cursor, ','));
    return json_take(cursor, close);
}

int text_equals(Text text, Text other) {
    return text.size == other.size &&
           (text.size == 0 || memcmp(text.text, other.text, text.size) == 0);
}

/* Return whether a text is `0x` and lower-case digits. */
int hex_is_lower(Text hex) {
    if (hex.size < 2 || hex.text[0] != '0' || hex.text[1] != 'x') return 0;
    unsigned strange = 0;
    for (size_t at = 2; at < hex.size; at++) {
        uint8_t digit = (uint8_t)hex.text[at];
        strange |= !((uint8_t)(digit - '0') < 10 || (uint8_t)(digit - 'a') < 6);
    }
    return !strange;
}

/* Write the bytes of `0x` hex; 0: it is not hex, or has an odd number of digits. */
int hex_to_bytes(Text hex, uint8_t *to) {
    if (hex.size < 2 || hex.size % 2 || hex.text[0] != '0' || hex.text[1] != 'x') return 0;
    unsigned strange = 0;
    for (size_t at = 2; at < hex.size; at += 2) {
        unsigned high = nibble_of(hex.text[at]), low = nibble_of(hex.text[at + 1]);
        strange |= high | low;
        *to++ = (uint8_t)(high << 4 | low);
    }
    return strange <= 15;
}

/* Read a quantity of at most 64 bits: `0x` and 1 to 16 digits. */
int hex_to_number(Text hex, uint64_t *number) {
    if (hex.size < 3 || hex.size > 18 || hex.text[0] != '0' || hex.text[1] != 'x') return 0;
    *number = 0;
    for (size_t at = 2; at < hex.size; at++) {
        unsigned nibble = nibble_of(hex.text[at]);
        if (nibble > 15) return 0;
        *number = *number << 4 | nibble;
    }
    return 1;
}

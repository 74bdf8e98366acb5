package driver

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/accelmux/accelmux/backends/sysfs"
)

// Clean trims NUL and white space from the end, and white space from the beginning.
func Clean(text string) string { return strings.TrimSpace(strings.TrimRight(text, "\x00 \t\r\n")) }

// ParseNumber reads a number of 64 bits, hexadecimal with 0x before it or decimal, as
// different versions of the drivers write the same file.
func ParseNumber(text string) (uint64, error) {
	cleaned, base := Clean(text), 10
	number := cleaned
	if rest, ok := strings.CutPrefix(strings.ToLower(cleaned), "0x"); ok {
		number, base = rest, 16
	}
	n, err := strconv.ParseUint(number, base, 64)
	if err != nil {
		return 0, fmt.Errorf("%s is no number of 64 bits", sysfs.Quote(cleaned))
	}
	return n, nil
}

// Printable is text for people; it is empty if a character cannot be printed, or if the text
// has more than 128 bytes.
func Printable(text string) string {
	if len(text) > 128 || strings.ContainsFunc(text, func(c rune) bool { return !unicode.IsPrint(c) || c == utf8.RuneError }) {
		return ""
	}
	return text
}

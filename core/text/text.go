// Package text makes the texts of backends, files and users short and safe for a log line, a
// terminal and an error. Limits are in bytes.
package text

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Cut returns at most limit bytes of s, without splitting a character.
func Cut(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	for limit > 0 && !utf8.RuneStart(s[limit]) {
		limit--
	}
	return s[:limit]
}

// Shorten returns s, or what fits of it into limit bytes with "..." at its end.
func Shorten(s string, limit int) string {
	const more = "..."
	if len(s) <= limit {
		return s
	}
	return Cut(s, limit-len(more)) + more
}

// Quote returns at most limit bytes of s in quotes, with escapes for what cannot be printed,
// and "..." behind the quotes if s is longer.
func Quote(s string, limit int) string {
	if len(s) > limit {
		return strconv.Quote(Cut(s, limit)) + "..."
	}
	return strconv.Quote(s)
}

// Unprintable stands in a cleaned text for what cannot be printed.
const Unprintable = utf8.RuneError

// Clean returns s with one [Unprintable] for each run of bytes that are no UTF-8 and of characters that cannot be printed:
// control characters, line breaks, and those that have no width or change the direction of a text.
func Clean(s string) string {
	if IsClean(s) {
		return s
	}
	inRun := false
	return strings.Map(func(r rune) rune {
		wasInRun := inRun
		if inRun = !isPrintable(r); !inRun {
			return r
		}
		if wasInRun {
			return -1
		}
		return Unprintable
	}, s)
}

// IsClean reports whether Clean returns s unchanged, and nothing in s was cleaned.
func IsClean[T string | []byte](s T) bool {
	for i := 0; i < len(s); i++ {
		if s[i] < ' ' || s[i] > '~' {
			return !strings.ContainsFunc(string(s[i:]), func(r rune) bool { return !isPrintable(r) })
		}
	}
	return true
}

func isPrintable(r rune) bool {
	return r != utf8.RuneError && (unicode.IsPrint(r) || unicode.Is(unicode.Zs, r))
}

// Printable returns at most limit bytes of s on one line, in valid UTF-8 and without control
// characters, and "..." behind them if s is longer.
func Printable(s string, limit int) string {
	short := Cut(s, limit)
	clean := strings.TrimSpace(strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case r == utf8.RuneError, !unicode.IsPrint(r):
			return '?'
		}
		return r
	}, strings.ToValidUTF8(short, "?")))
	if len(short) < len(s) {
		clean += "..."
	}
	return clean
}

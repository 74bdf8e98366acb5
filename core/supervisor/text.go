package supervisor

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// printable makes a backend's text safe for a log line, a terminal and an error:
// one line, valid UTF-8, no control characters, at most limit bytes.
func printable(text string, limit int) string {
	cut := len(text) > limit
	if cut {
		text = text[:limit]
	}
	text = strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case r == utf8.RuneError, !unicode.IsPrint(r):
			return '?'
		}
		return r
	}, strings.ToValidUTF8(text, "?"))
	text = strings.TrimSpace(text)
	if cut {
		text += "..."
	}
	return text
}

package text_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/accelmux/accelmux/core/text"
)

// Verifies what is left of a text, and how it shows that it was cut.
func TestText(t *testing.T) {
	for name, c := range map[string]struct{ got, want string }{
		"short":                  {text.Cut("abc", 3), "abc"},
		"cut":                    {text.Cut("abcd", 3), "abc"},
		"cut before a character": {text.Cut("ab€", 4), "ab"},
		"shortened":              {text.Shorten("abcdefg", 6), "abc..."},
		"quoted":                 {text.Quote("a\x1b\"", 8), `"a\x1b\""`},
		"quoted and cut":         {text.Quote("abcdef", 3), `"abc"...`},
		"printable":              {text.Printable(" a\nb\x1b[31m\xff ", 64), "a b?[31m?"},
		"clean":                  {text.Clean("caf\u00e9\u00a0a\nb\x1b[31m\xff\u202e\u200b\t"), "caf\u00e9\u00a0a\ufffdb\ufffd[31m\ufffd"},
		"printable and cut":      {text.Printable("abcdef", 3), "abc..."},
	} {
		if c.got != c.want {
			t.Errorf("%s: %q, want %q", name, c.got, c.want)
		}
	}
}

// Verifies that any text becomes one printable line within its limit.
func TestPrintable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.IntRange(0, 40).Draw(t, "limit")
		got := text.Printable(string(rapid.SliceOf(rapid.Byte()).Draw(t, "text")), limit)
		if len(got) > limit+len("...") || !utf8.ValidString(got) || strings.ContainsAny(got, "\n\r\t\x00\x1b") {
			t.Errorf("%q with the limit %d", got, limit)
		}
	})
}

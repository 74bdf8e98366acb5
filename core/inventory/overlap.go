package inventory

import (
	"path"
	"strings"
)

// overlap reports whether a path may match both patterns, which are split at slashes. "**" at the end stands for everything
// below, and the directory itself.
func overlap(a, b []string) bool {
	for len(a) > 0 && len(b) > 0 {
		if len(a) == 1 && a[0] == "**" || len(b) == 1 && b[0] == "**" {
			return true
		}
		if !segmentsOverlap(a[0], b[0]) {
			return false
		}
		a, b = a[1:], b[1:]
	}
	return len(a) == len(b) || len(a) == 1 && a[0] == "**" || len(b) == 1 && b[0] == "**"
}

// Tokens splits a pattern of one path element: "*", "?", classes, and characters as classes of one.
func Tokens(s string) (all []string) {
	for s != "" {
		n := 1
		switch {
		case s[0] == '\\' && len(s) > 1:
			n = 2
		case s[0] == '[':
			if end := strings.IndexByte(s, ']'); end > 0 {
				n = end + 1
			}
		}
		all = append(all, s[:n])
		s = s[n:]
	}
	return all
}

// segmentsOverlap fills a table of which beginnings of the patterns can match the same text.
func segmentsOverlap(x, y string) bool {
	if i, j := literal(x), literal(y); !strings.HasPrefix(i, j) && !strings.HasPrefix(j, i) {
		return false // most differ before their first wildcard
	}
	a, b := Tokens(x), Tokens(y)
	row := make([]bool, len(b)+1)
	for i := range len(a) + 1 {
		next := make([]bool, len(b)+1)
		for j := range len(b) + 1 {
			switch {
			case i == 0 && j == 0:
				next[j] = true
			case i > 0 && a[i-1] == "*" && row[j], j > 0 && b[j-1] == "*" && next[j-1]:
				next[j] = true
			case i > 0 && j > 0 && a[i-1] == "*":
				next[j] = next[j-1]
			case i > 0 && j > 0 && b[j-1] == "*":
				next[j] = row[j]
			case i > 0 && j > 0:
				next[j] = row[j-1] && meet(a[i-1], b[j-1])
			}
		}
		row = next
	}
	return row[len(b)]
}

// meet reports whether two tokens that are no "*" may match the same character.
func meet(a, b string) bool {
	plain := func(t string) (string, bool) {
		return strings.TrimPrefix(t, `\`), t != "?" && t[0] != '['
	}
	x, isX := plain(a)
	y, isY := plain(b)
	switch {
	case isX && isY:
		return x == y
	case isX:
		ok, err := path.Match(b, x)
		return ok || err != nil
	case isY:
		ok, err := path.Match(a, y)
		return ok || err != nil
	}
	return true
}

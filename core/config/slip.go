package config

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// slip is a mistake in YAML: the row where it is, from 0, and what to do.
type slip struct {
	row     int
	message string
}

// slipIn returns the first of the mistakes that people make in YAML: the parser notices many of them rows later, names what it
// expected instead, and often the row where the mapping around it begins. Nil if there is none that is known. The text is one
// that the parser refuses.
func slipIn(text string) *slip {
	s := &slipFinder{rows: strings.Split(text, "\n"), indents: []int{0}}
	for s.row = 0; s.row < len(s.rows) && s.found == nil; s.row++ {
		s.scan(strings.TrimRight(s.rows[s.row], " \r"))
	}
	if s.found == nil && len(s.open) > 0 {
		s.found = s.unclosedBracket()
	}
	return s.found
}

// unclosedBracket is for the innermost of the open brackets.
func (s *slipFinder) unclosedBracket() *slip {
	last := s.open[len(s.open)-1]
	return &slip{last.row, fmt.Sprintf("%q is not closed by %q, or a comma is missing", string(last.bracket), closing[last.bracket])}
}

// slipFinder goes through the rows of a text.
type slipFinder struct {
	rows []string
	row  int
	// indents are those of the open blocks, ascending.
	indents []int
	// open are the brackets that are not closed.
	open []opened
	// block is the indentation of a block of text, which | or > begins on a row; nil outside.
	block *int
	// quote is that of a text which goes on from the row before; 0 for none.
	quote byte
	found *slip
}

type opened struct {
	bracket byte
	row     int
}

var closing = map[byte]string{'[': "]", '{': "}"}

func (s *slipFinder) fail(format string, args ...any) {
	if s.found == nil {
		s.found = &slip{s.row, fmt.Sprintf(format, args...)}
	}
}

var (
	// startsEntry matches a row that begins a key or an item.
	startsEntry = regexp.MustCompile(`^\s*(- |-$|[\w./-]+:( |$))`)
	// keyOnly matches a row that may be a key without its colon.
	keyOnly = regexp.MustCompile(`^[A-Za-z][\w.-]*( [^:#]*)?$`)
	// conflict matches what git puts around the two sides of a conflict.
	conflict = regexp.MustCompile(`^(<{7}|={7}|>{7})($| )`)
	itemKey  = regexp.MustCompile(`^(- +)*`)
	// noSpace matches a row with a key whose colon no space follows, which is a text for YAML.
	noSpace = regexp.MustCompile(`^(?:- +)*([A-Za-z][\w.-]*):([^\s:/]|/[^/])`)
	// otherSpace matches a space of typography where YAML has one of its own, or at the end of a row: word processors and web
	// pages put in such.
	otherSpace = regexp.MustCompile(`(?:^\s*|[:-]\s*)([\x{a0}\x{1680}\x{2000}-\x{200a}\x{202f}\x{205f}\x{3000}])|([\x{a0}\x{1680}\x{2000}-\x{200a}\x{202f}\x{205f}\x{3000}])\s*($|#)`)
)

// isOtherSpace reports whether a character looks like a space, and is none for YAML.
func isOtherSpace(r rune) bool { return r != ' ' && unicode.Is(unicode.Zs, r) }

// otherSpaceIn returns what is wrong with a row that has a space of another kind; "" if it has none.
func otherSpaceIn(row string) string {
	row, _, _ = strings.Cut(" "+row, " #") // without a comment
	m := otherSpace.FindStringSubmatch(row)
	if m == nil {
		return ""
	}
	r, _ := utf8.DecodeRuneInString(m[1] + m[2])
	return fmt.Sprintf("a character that looks like a space is none for YAML (%U): write a space of the keyboard", r)
}

// scan goes through one row.
func (s *slipFinder) scan(row string) {
	content := strings.TrimLeft(row, " \t")
	indent := len(row) - len(content)
	if s.block != nil {
		if content == "" || indent > *s.block {
			return
		}
		s.block = nil
	}
	if m := strings.TrimSuffix(conflict.FindString(row), " "); m != "" {
		s.fail("%s is git's mark of a conflict: solve it", m)
		return
	}
	if content == "" || content[0] == '#' || strings.HasPrefix(content, "---") {
		return
	}
	if s.quote != 0 {
		end := closed(s.quote, content)
		if end < 0 {
			return
		}
		s.quote = 0
		s.values(indent, content[end:], false)
		return
	}
	if len(s.open) > 0 {
		if at := s.open[0].row; startsEntry.MatchString(row) && startsEntry.MatchString(s.rows[at]) && indent <= s.indentOf(at) {
			s.found = s.unclosedBracket()
			return
		}
		s.values(indent, content, true)
		return
	}
	if space := otherSpaceIn(row); space != "" {
		s.fail("%s", space)
		return
	}
	if strings.Contains(row[:indent], "\t") {
		s.fail("the line begins with a tab: YAML is indented by spaces alone")
		return
	}
	isOpen := slices.Contains(s.indents, indent) && !strings.HasPrefix(content, "- ")
	s.indentation(indent, content)
	if m := noSpace.FindStringSubmatch(content); m != nil && !strings.Contains(content, ": ") && (isOpen || s.isNext(indent+len(itemKey.FindString(content)))) {
		s.fail("a space is missing after the colon of %s", m[1])
	}
	if keyOnly.MatchString(content) && s.row+1 < len(s.rows) && startsEntry.MatchString(s.rows[s.row+1]) && (s.follows(indent) || s.indentOf(s.row+1) == indent) {
		key, _, _ := strings.Cut(content, " ")
		s.fail("a colon is missing after %s", key)
	}
	s.values(indent, content, true)
}

// isNext reports whether the next row begins an entry at an indentation.
func (s *slipFinder) isNext(indent int) bool {
	return s.row+1 < len(s.rows) && startsEntry.MatchString(s.rows[s.row+1]) && s.indentOf(s.row+1) == indent
}

func (s *slipFinder) indentOf(row int) int {
	return len(s.rows[row]) - len(strings.TrimLeft(s.rows[row], " "))
}

// follows reports whether the row before is an entry with a value or at the same indentation, so that this one is no value of
// it on a row of its own.
func (s *slipFinder) follows(indent int) bool {
	for i := s.row - 1; i >= 0; i-- {
		before := strings.TrimRight(s.rows[i], " \r")
		if content := strings.TrimLeft(before, " -"); content != "" && content[0] != '#' {
			return len(before)-len(content) >= indent || !strings.HasSuffix(content, ":")
		}
	}
	return true
}

// indentation checks that a row is at the indentation of an open block, or deeper than all.
func (s *slipFinder) indentation(indent int, content string) {
	isClosed := false
	for s.indents[len(s.indents)-1] > indent {
		s.indents, isClosed = s.indents[:len(s.indents)-1], true
	}
	if top := s.indents[len(s.indents)-1]; top < indent && isClosed {
		s.fail("the line is indented by %s, and no line above it that it could belong to is", spaces(indent))
	}
	// A "-" begins a block of its own, at what follows it.
	for _, at := range []int{indent, indent + len(itemKey.FindString(content))} {
		if at > s.indents[len(s.indents)-1] {
			s.indents = append(s.indents, at)
		}
	}
}

func spaces(n int) string {
	if n == 1 {
		return "1 space"
	}
	return fmt.Sprintf("%d spaces", n)
}

// values goes through a row, from what is at its indentation. isStart: a value may begin there.
func (s *slipFinder) values(indent int, content string, isStart bool) {
	hasKey := false
	for i := 0; i < len(content); i++ {
		c, rest := content[i], content[i:]
		isEnd := i+1 == len(content) || content[i+1] == ' '
		switch {
		case c == ' ':
			continue
		case c == '#' && i > 0 && content[i-1] == ' ':
			return
		case isStart && c == '-' && isEnd && len(s.open) == 0:
			continue
		case isStart && (c == '"' || c == '\''):
			end := closed(c, rest[1:])
			if end < 0 {
				s.unclosed(c)
				return
			}
			i += end
			if s.after(content[i+1:], c) {
				return
			}
		case isStart && strings.IndexByte("@%`", c) >= 0:
			s.fail("a text that begins with %c must be in quotes", c)
		case isStart && c == '*' && !anchor.MatchString(rest[1:]):
			s.fail("a text that begins with * must be in quotes")
		case isStart && (c == '|' || c == '>') && len(s.open) == 0:
			s.block = &indent
			s.notIndented(indent, c)
			return
		case !isStart && len(s.open) > 0 && c == '{' && content[i-1] == '$':
			s.fail("${ } is for variables, which nothing fills in here: write the value")
			return
		case !isStart && len(s.open) > 0 && (c == '[' || c == '{'):
			s.fail("within { } and [ ] a text with brackets or braces must be in quotes as a whole")
			return
		case isStart && (c == '[' || c == '{'):
			s.open = append(s.open, opened{c, s.row})
			isStart = true
			continue
		case len(s.open) > 0 && (c == ']' || c == '}'):
			if first := s.open[len(s.open)-1]; closing[first.bracket] != string(c) {
				s.fail("%q is closed by %q, not by %q", string(first.bracket), closing[first.bracket], string(c))
				return
			}
			s.open = s.open[:len(s.open)-1]
			if next := strings.TrimLeft(rest[1:], " "); len(s.open) == 0 && next != "" && next[0] != ':' && next[0] != '#' {
				s.fail("something follows the %q: put it on a line of its own, or all of it in quotes if it is a text", string(c))
				return
			}
		case len(s.open) > 0 && c == ',':
			isStart = true
			continue
		case c == ':' && isEnd:
			if hasKey && len(s.open) == 0 {
				s.fail(`a text with ": " must be in quotes as a whole`)
			}
			hasKey, isStart = true, true
			continue
		}
		isStart = false
	}
}

// notIndented is for a row after | or > that is not part of the text which begins there.
func (s *slipFinder) notIndented(indent int, begins byte) {
	next := s.row + 1
	for next < len(s.rows) && strings.TrimSpace(s.rows[next]) == "" {
		next++
	}
	if next < len(s.rows) && s.indentOf(next) <= indent && !strings.HasPrefix(strings.TrimSpace(s.rows[next]), "#") && !startsEntry.MatchString(s.rows[next]) && s.found == nil {
		s.found = &slip{next, fmt.Sprintf("the text after %c must be indented by more than %s", begins, spaces(indent))}
	}
}

// anchor matches a name that an alias may have.
var anchor = regexp.MustCompile(`^[A-Za-z0-9_-]`)

// unclosed is for a text in quotes that does not end on its row: it may go on, but not before a row that begins an entry.
func (s *slipFinder) unclosed(quote byte) {
	next := s.row + 1
	for next < len(s.rows) && strings.TrimSpace(s.rows[next]) == "" {
		next++
	}
	if next == len(s.rows) || startsEntry.MatchString(s.rows[next]) {
		s.fail("the text that begins with %c is not closed by %[1]c", quote)
		return
	}
	s.quote = quote
}

// after checks what follows a text in quotes: nothing, but a comment, a colon, or what brackets allow.
func (s *slipFinder) after(rest string, quote byte) (failed bool) {
	next := strings.TrimLeft(rest, " ")
	if next == "" || next[0] == ':' || next[0] == '#' && next != rest || len(s.open) > 0 && strings.IndexByte(",]}", next[0]) >= 0 {
		return false
	}
	if len(s.open) > 0 {
		s.fail("a comma is missing after a text in quotes")
		return true
	}
	other := map[byte]byte{'"': '\'', '\'': '"'}[quote]
	switch {
	case next[len(next)-1] == quote && !strings.Contains(next, ": ") && !strings.Contains(next, " #"):
		s.fail("the text in quotes has a %c, which ends it: leave out the %[1]c around all of it", quote)
	case strings.IndexByte(next, other) >= 0:
		s.fail("something follows the text in quotes: write >- there, and all of it in the next line")
	default:
		s.fail("something follows the text in quotes: put all of it in %c", other)
	}
	return true
}

// closed returns how many bytes of what follows a quote belong to the text in it, with the quote at its end; -1 if it has none.
func closed(quote byte, rest string) int {
	for i := 0; i < len(rest); i++ {
		switch {
		case rest[i] == '\\' && quote == '"':
			i++
		case rest[i] == quote && quote == '\'' && i+1 < len(rest) && rest[i+1] == quote:
			i++
		case rest[i] == quote:
			return i + 1
		}
	}
	return -1
}

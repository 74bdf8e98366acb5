package config

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/accelmux/accelmux/core/text"
)

// maxErrors bounds the errors that are reported for one file: more do not help, for example
// when the path is that of another kind of file.
const maxErrors = 50

// Error is one error in a configuration file.
type Error struct {
	// File is the path given to Load, or the name given to Parse.
	File string
	Position
	// Field is the path of the field, such as "profiles[0].resources[1].name";
	// "" for the file as a whole.
	Field string
	// Message describes the error and what would be valid.
	Message string
}

// Position is where a field begins in a file.
type Position struct {
	// Line and Column, in characters, count from 1; 0 if they are not known.
	Line, Column int
}

// Positions are those of the fields of a document, by their paths.
type Positions map[string]Position

// Of returns the position of a field, or of its closest parent in the document.
func (p Positions) Of(field string) Position {
	for ; field != ""; field = parentPath(field) {
		if at, ok := p[field]; ok {
			return at
		}
	}
	return p[""]
}

// PositionOf returns the position of a node.
func PositionOf(n *yaml.Node) Position { return Position{n.Line, n.Column} }

// Error returns "node.yaml:12:5: profiles[0].name: message", without the parts that
// are unknown.
func (e Error) Error() string {
	var b strings.Builder
	b.WriteString(e.File)
	if e.Line > 0 {
		b.WriteString(":" + strconv.Itoa(e.Line))
		if e.Column > 0 {
			b.WriteString(":" + strconv.Itoa(e.Column))
		}
	}
	if b.Len() > 0 {
		b.WriteString(": ")
	}
	if e.Field != "" {
		b.WriteString(e.Field + ": ")
	}
	b.WriteString(e.Message)
	return b.String()
}

// Errors are all errors in a configuration file, sorted by position; never empty when returned as
// an error.
type Errors []Error

// Error returns one line for each error.
func (e Errors) Error() string {
	lines := make([]string, len(e))
	for i := range e {
		lines[i] = e[i].Error()
	}
	return strings.Join(lines, "\n")
}

// Unwrap returns the errors, for errors.As.
func (e Errors) Unwrap() []error {
	errs := make([]error, len(e))
	for i := range e {
		errs[i] = e[i]
	}
	return errs
}

// Err sorts the errors and limits them to maxErrors. It returns an Errors, or nil if there are none.
func (e Errors) Err() error {
	if len(e) == 0 {
		return nil
	}
	slices.SortStableFunc(e, func(a, b Error) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column), cmp.Compare(a.Field, b.Field))
	})
	if more := len(e) - maxErrors; more > 0 {
		last := Error{File: e[0].File, Position: Position{Line: e[maxErrors].Line}, Message: fmt.Sprintf("and %d more errors from here on", more)}
		e = append(e[:maxErrors:maxErrors], last)
	}
	return e
}

// FieldPath returns the path of a field or a key below parent.
func FieldPath(parent, name string) string {
	if !plainKey(name) {
		return parent + "[" + show(name) + "]"
	}
	if parent == "" {
		return name
	}
	return parent + "." + name
}

// itemPath returns the path of a list's item.
func itemPath(parent string, i int) string {
	return parent + "[" + strconv.Itoa(i) + "]"
}

// parentPath returns the path without its last element. It may cut too much of a path with a
// quoted key; then a position is less exact.
func parentPath(path string) string {
	i := strings.LastIndexAny(path, ".[")
	if i < 0 {
		return ""
	}
	return path[:i]
}

// plainKey reports whether a key can stand in a path without quotes.
func plainKey(s string) bool {
	for _, r := range s {
		if (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '_' && r != '-' {
			return false
		}
	}
	return s != "" && len(s) <= 64
}

// show quotes and shortens text from the file, so that control characters and long text are
// harmless in a log.
func show(s string) string { return text.Quote(s, 64) }

package config

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// maxErrors bounds how many errors one file is answered with. Whoever pointed
// us at a wrong file is not helped by a thousand lines.
const maxErrors = 50

// Error is one thing that is wrong with a configuration file.
type Error struct {
	// File is the name that Load or Parse was given.
	File string
	// Line counts from 1; 0 if the error has no place in the file.
	Line int
	// Field is the path of the field, such as "profiles[0].resources[1].name";
	// "" for the file as a whole.
	Field string
	// Message says what is wrong and what would be right.
	Message string
}

// Error is "node.yaml:12: profiles[0].name: message", without the parts that
// are unknown.
func (e Error) Error() string {
	var b strings.Builder
	b.WriteString(e.File)
	if e.Line > 0 {
		b.WriteString(":" + strconv.Itoa(e.Line))
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

// Errors is everything that is wrong with a configuration file, sorted by line;
// never empty where it is returned as an error.
type Errors []Error

// Error is one line for each error.
func (e Errors) Error() string {
	lines := make([]string, len(e))
	for i := range e {
		lines[i] = e[i].Error()
	}
	return strings.Join(lines, "\n")
}

// Unwrap gives the single errors to errors.As.
func (e Errors) Unwrap() []error {
	errs := make([]error, len(e))
	for i := range e {
		errs[i] = e[i]
	}
	return errs
}

// finish sorts the errors and bounds them; nil if there are none.
func (e Errors) finish() error {
	if len(e) == 0 {
		return nil
	}
	slices.SortStableFunc(e, func(a, b Error) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Field, b.Field))
	})
	if more := len(e) - maxErrors; more > 0 {
		last := Error{File: e[0].File, Line: e[maxErrors].Line, Message: fmt.Sprintf("and %d more errors from here on", more)}
		e = append(e[:maxErrors:maxErrors], last)
	}
	return e
}

// fieldPath is the path of a field or a key below parent.
func fieldPath(parent, name string) string {
	if !plainKey(name) {
		return parent + "[" + show(name) + "]"
	}
	if parent == "" {
		return name
	}
	return parent + "." + name
}

// itemPath is the path of a list's item.
func itemPath(parent string, i int) string {
	return parent + "[" + strconv.Itoa(i) + "]"
}

// parentPath cuts the last step off a path. It may cut too much of a path with
// a quoted key, which costs precision of a line number and nothing else.
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

// show quotes what the file says, so that control characters and a megabyte of
// text do no harm in a log.
func show(s string) string {
	const limit = 64
	for i := range s {
		if i >= limit {
			return strconv.Quote(s[:i]) + "..."
		}
	}
	return strconv.Quote(s)
}

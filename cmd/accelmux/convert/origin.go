package convert

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/accelmux/accelmux/backends/sdk"
	"github.com/accelmux/accelmux/core/config"
)

// origin is where the input has what a part of the result is made of: a field of a file, a flag or a variable.
// Errors of the result are those of its origins: the reader knows the input only.
type origin struct {
	// file is the file, "flag --name" or "variable NAME".
	file string
	config.Position
	field string
}

// refuse returns the error of an origin.
func (o origin) refuse(format string, args ...any) error {
	return config.Error{File: o.file, Position: o.Position, Field: o.field, Message: fmt.Sprintf(format, args...)}
}

// below returns the origin of a field that may not be in the input, with the position of its parent.
func (i input) at(field string) origin {
	return origin{i.file, cmp.Or(i.positions.Of(field), config.Position{Line: 1}), field}
}

// refuse returns the error of a field.
func (i input) refuse(field, format string, args ...any) error {
	return i.at(field).refuse(format, args...)
}

// origins are those of the parts of a result, by their paths in a profile; "" is the whole.
type origins map[string]origin

// put adds the origins of a part.
func (all origins) put(path string, parts origins) {
	for name, o := range parts {
		all[strings.Trim(path+"."+name, ".")] = o
	}
}

// of returns the origin of a part, or of the smallest one around it, and what is left of the path.
func (all origins) of(path string) (o origin, rest string) {
	for whole := path; ; {
		if o, ok := all[path]; ok || path == "" {
			return o, strings.TrimLeft(whole[len(path):], ".")
		}
		path = path[:max(strings.LastIndexAny(path, ".["), 0)]
	}
}

// refuse returns an error of a part of the result as one of its origin.
func (all origins) refuse(path, message string) config.Error {
	o, rest := all.of(path)
	if name := rest[strings.LastIndex(rest, ".")+1:]; name != "" {
		message = name + ": " + message
	}
	return config.Error{File: o.file, Position: o.Position, Field: o.field, Message: message}
}

var (
	inProfile = regexp.MustCompile(`^profiles\[(\d+)\]\.?(.*)$`)
	reference = regexp.MustCompile(`(profiles\[\d+\]\S*?), on line \d+`)
)

// traced returns the errors of a node configuration as those of the input.
func traced(err error, profiles []profile) error {
	var all config.Errors
	if !errors.As(err, &all) {
		return err
	}
	find := func(field string) (origins, string) {
		if m := inProfile.FindStringSubmatch(field); m != nil {
			if i, err := strconv.Atoi(m[1]); err == nil && i < len(profiles) {
				return profiles[i].origins, m[2]
			}
		}
		return nil, field
	}
	var out config.Errors
	for _, e := range all {
		parts, path := find(e.Field)
		traced := parts.refuse(path, reference.ReplaceAllStringFunc(e.Message, func(text string) string {
			others, path := find(reference.FindStringSubmatch(text)[1])
			o, _ := others.of(path)
			return fmt.Sprintf("%s, on line %d", o.field, o.Line)
		}))
		if !slices.Contains(out, traced) {
			out = append(out, traced)
		}
	}
	return out
}

// tracedFields returns the errors of a backend's settings, which are at path in a profile, as those of the input.
func (all origins) tracedFields(err error, path string) error {
	var fields sdk.FieldErrors
	if !errors.As(err, &fields) {
		return err
	}
	var out config.Errors
	for _, f := range fields {
		if traced := all.refuse(strings.Trim(path+"."+f.Field, "."), f.Message); !slices.Contains(out, traced) {
			out = append(out, traced)
		}
	}
	return out
}

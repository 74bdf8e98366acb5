// Package suggestion finds the existing name that is closest to an unknown one, for error
// messages.
package suggestion

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/accelmux/accelmux/core/text"
)

// DidYouMean returns "; did you mean X?", with the name that is closest to got, or "" if
// none is close.
func DidYouMean(got string, names []string) string {
	if s := Closest(got, names); s != "" && s != got {
		return "; did you mean " + strconv.Quote(s) + "?"
	}
	return ""
}

// Meant is DidYouMean for the names that a value may have. One that turns something on or off may have been meant for the name
// that does.
func Meant(got string, names []string) string {
	var off, on []string
	for _, name := range names {
		switch name {
		case "off", "never", "none", "refuse":
			off = append(off, name)
		case "auto", "accept":
			on = append(on, name)
		}
	}
	if len(off) == 1 && len(on) == 0 && len(names) == 2 {
		on = slices.DeleteFunc(slices.Clone(names), func(name string) bool { return name == off[0] })
	}
	switch strings.ToLower(got) {
	case "false", "no", "off", "never", "none", "disabled":
		on = off
	case "true", "yes", "on", "enabled", "all":
	default:
		return DidYouMean(got, names)
	}
	if len(on) != 1 {
		return ""
	}
	return "; write " + on[0]
}

// OrAll is DidYouMean or, if no name is close, all names after an introduction: "; there are a, b". It lists the first of many.
func OrAll(got, introduction string, names []string) string {
	hint := DidYouMean(got, names)
	if hint != "" || len(names) == 0 {
		return hint
	}
	list, more := strings.Join(names[:min(len(names), maxListed)], ", "), ""
	if len(names) > maxListed {
		more = " ..."
	}
	return "; " + introduction + " " + list + more
}

// maxListed bounds the names in a message.
const maxListed = 40

// UnknownField returns the message about a field that is not one of names: with the closest one or, if none is close, all, if
// there are any.
func UnknownField(got string, names []string) string {
	unknown := "unknown field " + text.Quote(got, maxLen)
	if i := strings.IndexAny(got, ":="); i > 0 && slices.Contains(names, strings.TrimSpace(got[:i])) { // as in {count:2} and {count = 2}
		unknown += fmt.Sprintf("; write %s: %s", strings.TrimSpace(got[:i]), text.Printable(strings.TrimSpace(got[i+1:]), maxLen))
		if got[i] == ':' {
			unknown += ", with a space"
		}
		return unknown
	}
	if len(names) == 0 {
		return unknown + "; there are none here"
	}
	return unknown + OrAll(got, "the fields here are", names)
}

// Misplaced returns the message about a field that other objects have: those of places, which has the fields of objects by their
// paths, at the least depth. The field may also have an object's name in front, as draDriver for the field driver of dra. ""
// if it is no such field.
func Misplaced(got string, places map[string][]string) string {
	unknown := "unknown field " + text.Quote(got, maxLen)
	var of []string
	for _, path := range slices.SortedFunc(maps.Keys(places), func(a, b string) int { return cmp.Or(depth(a)-depth(b), strings.Compare(a, b)) }) {
		if slices.Contains(places[path], got) && (len(of) == 0 || depth(of[0]) == depth(path)) {
			of = append(of, path)
		}
		last := path[strings.LastIndexByte(path, '.')+1:]
		for _, field := range places[path] {
			if len(of) == 0 && strings.EqualFold(last+field, got) {
				return fmt.Sprintf("%s; write %s: {%s: ...%s", unknown, strings.ReplaceAll(path, ".", ": {"), field, strings.Repeat("}", 1+depth(path)))
			}
		}
	}
	if len(of) == 0 {
		return ""
	}
	return unknown + "; it is a field of " + strings.Join(of, " and of ")
}

func depth(path string) int { return strings.Count(path, ".") }

// IsMisspelt reports whether a name is another one but for one letter that is wrong, missing or too much, or two that are
// swapped.
func IsMisspelt(got, name string) bool {
	got, name = strings.ToLower(got), strings.ToLower(name)
	if len(got) > maxLen || got == name {
		return false
	}
	if editDistance(got, name) == 1 {
		return true
	}
	for i := range len(got) - 1 {
		if got[:i]+got[i+1:i+2]+got[i:i+1]+got[i+2:] == name {
			return true
		}
	}
	return false
}

// maxLen bounds a name, in bytes.
const maxLen = 64

// Closest returns the name that is closest to got, ignoring case, or "" if none is close.
func Closest(got string, names []string) string {
	if len(got) > maxLen {
		return ""
	}
	// One edit in a short name, two in one of four letters or more (a swap of two letters is
	// two edits), three in a long one.
	best, bestDistance := "", 1+max(1, min(3, 1+len(got)/4))
	for _, name := range names {
		if d := editDistance(strings.ToLower(got), strings.ToLower(name)); d < bestDistance && d < len(name) {
			best, bestDistance = name, d
		}
	}
	return best
}

// editDistance is the Levenshtein distance in bytes.
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost = 1 + min(diagonal, row[j], row[j+1])
			}
			diagonal, row[j+1] = row[j+1], cost
		}
	}
	return row[len(b)]
}

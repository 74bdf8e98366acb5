package expression

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/google/cel-go/common/types"
)

// variables are the names that an expression has.
var variables = []string{"name", "node", "kind", "self", "pci", "usb", "iommu", "sys"}

var (
	unknownName  = regexp.MustCompile(`^undeclared reference to '([^']*)'`)
	unknownField = regexp.MustCompile(`^undefined field '([^']*)'`)
	noOverload   = regexp.MustCompile(`^found no matching overload for '_?(.*?)_?' applied to '(.*)'$`)
	twoOperands  = regexp.MustCompile(`^\((\w+), (\w+)\)$`)
	wordBefore   = regexp.MustCompile(`(\w+)\.?$`)
	methodBefore = regexp.MustCompile(`(\w+)\.\w+$`)
	// bareText matches what is a text for YAML, and mostly none for CEL, and bareWord the name that it begins with.
	bareText = regexp.MustCompile(`^[\w][\w .-]*$`)
	bareWord = regexp.MustCompile(`^\w+`)
)

// wrong returns what is wrong with an expression, by an error of the compiler at a character.
func wrong(text string, at int, message string, want Want) string {
	if bareText.MatchString(text) && !slices.Contains(variables, bareWord.FindString(text)) {
		switch want {
		case Attribute:
			return "it is an expression, in which a text is in quotes: " + quoted(text)
		case Int:
			return "it is an expression of a whole number in base units, such as 8589934592 for 8Gi"
		default:
		}
	}
	if inner, ok := strings.CutPrefix(strings.TrimSuffix(text, "}"), "{"); ok && want != Text && want != Texts {
		return "it is an expression as a whole, without braces: write " + inner
	}
	before := text[:min(at, len(text))]
	if m := unknownName.FindStringSubmatch(message); m != nil {
		if strings.HasPrefix(text[len(before):], "(") {
			return "there is no function " + m[1] + "; " + functionsOf(before)
		}
		return fmt.Sprintf("there is no name %s; there are %s", m[1], list(variables))
	}
	if m := unknownField.FindStringSubmatch(message); m != nil {
		of := wordBefore.FindStringSubmatch(before)
		switch {
		case of == nil:
			return "there is no field " + m[1]
		case fields[of[1]] != nil:
			return fmt.Sprintf("there is no field %s; %s has %s", m[1], of[1], list(slices.Sorted(maps.Keys(fields[of[1]]))))
		}
		return fmt.Sprintf("there is no field %s; %s.text(%q) reads a file", m[1], of[1], m[1])
	}
	if m := noOverload.FindStringSubmatch(message); m != nil {
		if operands := twoOperands.FindStringSubmatch(m[2]); operands != nil {
			return fmt.Sprintf("%s is for values of one type, and these are of the types %s and %s: a text is in quotes", m[1], operands[1], operands[2])
		}
		if slices.ContainsFunc(methods, func(method method) bool { return method.name == m[1] }) {
			return fmt.Sprintf(`%s is written self.%[1]s("FILE")`, m[1])
		}
		return m[1] + " is not for these types"
	}
	return plain(message)
}

// plain returns an error of the compiler without what is its own: the tokens that it expected.
func plain(message string) string {
	message = strings.TrimSuffix(message, " (in container '')")
	for _, p := range []struct {
		pattern *regexp.Regexp
		plain   string
	}{
		{regexp.MustCompile(`^Syntax error: missing '(.*)' at .*$`), "a $1 is missing"},
		{regexp.MustCompile(`^Syntax error: token recognition error at: '= ?'$`), `"=" is no operator: write == to compare`},
		{regexp.MustCompile(`^Syntax error: token recognition error at: '(["'].*)'$`), `the text that begins with $1 is not closed`},
		{regexp.MustCompile(`^Syntax error: token recognition error at: '(.*)'$`), `"$1" has no meaning there`},
		{regexp.MustCompile(`^Syntax error: (?:mismatched|extraneous) input '<EOF>' .*$`), "something is missing at the end"},
		{regexp.MustCompile(`^Syntax error: (?:mismatched|extraneous) input '(.*)' expecting .*$`), `"$1" is not expected there`},
		{regexp.MustCompile(`^Syntax error: .*$`), "it cannot be read there"},
	} {
		if p.pattern.MatchString(message) {
			return p.pattern.ReplaceAllString(message, p.plain)
		}
	}
	return message
}

// quoted returns how YAML has an expression that is a text.
func quoted(text string) string { return `'"` + text + `"'` }

// functionsOf returns the functions that there are for what a call begins with.
func functionsOf(call string) string {
	var names []string
	for _, m := range methods {
		names = append(names, m.name)
	}
	of := methodBefore.FindStringSubmatch(call)
	switch {
	case of == nil:
		return fmt.Sprintf(`there are version(TEXT) and, as in self.text("FILE"), %s`, list(names))
	case slices.Contains([]string{"self", "sys", "pci", "usb"}, of[1]):
		return fmt.Sprintf(`%s has %s, as in %[1]s.text("FILE")`, of[1], list(names))
	}
	return "texts have startsWith, endsWith, contains, matches, size, replace, split, substring, trim, lowerAscii and upperAscii"
}

// list joins names.
func list(names []string) string {
	return strings.Join(names[:len(names)-1], ", ") + " and " + names[len(names)-1]
}

// otherType returns what is wrong with an expression of another type than is wanted.
func otherType(text string, is *types.Type, want Want) string {
	hint := ""
	if want == Attribute && bareText.MatchString(text) && is.IsExactType(types.DoubleType) {
		hint = "; a text is in quotes: " + quoted(text)
	}
	return fmt.Sprintf("%q is of the type %s, want %s%s", text, is, accepted[want].name, hint)
}

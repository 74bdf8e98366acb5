package config

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/accelmux/accelmux/core/suggestion"
	"github.com/accelmux/accelmux/core/text"
)

// maxDetail bounds a message about an expression, in bytes.
const maxDetail = 512

// celError matches the first line of a cel-go error; two lines that show the place follow.
var celError = regexp.MustCompile(`ERROR: <input>:(-?\d+):(\d+): (.*)`)

// explain returns what is wrong with an expression, in one sentence with the place, from the compiler's errors. Of several it
// is the first: the others mostly follow from it.
func explain(expression, detail string) string {
	m := celError.FindStringSubmatch(detail)
	if m == nil {
		return plainError(expression, 0, strings.TrimPrefix(detail, "compilation failed: "))
	}
	line, _ := strconv.Atoi(m[1])
	column, _ := strconv.Atoi(m[2])
	message := strings.TrimSpace(m[3])
	at := offset(expression, line, column)
	if line < 1 { // of the expression as a whole
		return plainError(expression, 0, message)
	}
	if strings.HasPrefix(message, "Syntax error: ") {
		at, message = celSlip(expression, at, strings.Contains(message, "<EOF>"))
	} else {
		message = plainError(expression, at, message)
	}
	before := expression[:at]
	column = utf8.RuneCountInString(before[strings.LastIndexByte(before, '\n')+1:]) + 1
	if line = strings.Count(before, "\n") + 1; strings.Contains(expression, "\n") {
		return fmt.Sprintf("at line %d, column %d, %s", line, column, message)
	}
	return fmt.Sprintf("at column %d, %s", column, message)
}

// offset returns the index of a line and a column, in characters from 1, in an expression; its length if that is beyond it.
func offset(expression string, line, column int) int {
	at := 0
	for ; line > 1; line-- {
		next := strings.IndexByte(expression[at:], '\n')
		if next < 0 {
			return len(expression)
		}
		at += next + 1
	}
	for ; column > 1 && at < len(expression); column-- {
		_, size := utf8.DecodeRuneInString(expression[at:])
		at += size
	}
	return at
}

// slips are what people write that is not CEL, outside of texts, with what is right. The longest come first.
var slips = []struct {
	pattern *regexp.Regexp
	message string
}{
	{regexp.MustCompile(`^===`), `"===" is no operator: write == to compare`},
	{regexp.MustCompile(`^=~`), `"=~" is no operator: write x.matches("...")`},
	{regexp.MustCompile(`^<>`), `"<>" is no operator: write !=`},
	{regexp.MustCompile(`^(=>|=<)`), `write >= or <=, with the = last`},
	{regexp.MustCompile(`^=($|[^=])`), `"=" is no operator: write == to compare`},
	{regexp.MustCompile(`^&($|[^&])`), `"&" is no operator: write && for and`},
	{regexp.MustCompile(`^\|($|[^|])`), `"|" is no operator: write || for or`},
	{regexp.MustCompile(`^(?i:and)\b`), `"and" is no operator: write &&`},
	{regexp.MustCompile(`^(?i:or)\b`), `"or" is no operator: write ||`},
	{regexp.MustCompile(`^(?i:not)\b`), `"not" is no operator: write !(...) around what must not hold`},
	{regexp.MustCompile(`^[“”„‘’]`), `texts are in straight quotes: "..."`},
	{regexp.MustCompile(`^[0-9.]+[KMGTPEk]i?B?\b`), `a quantity is written quantity("8Gi")`},
	{regexp.MustCompile(`^in\s*\(`), `a list is in brackets: x in ["a", "b"]`},
}

// celOperators are those of two characters, so that no slip is found in their second one.
var celOperators = []string{"==", "!=", "<=", ">=", "&&", "||"}

// celSlip returns where and what a mistake in the syntax of an expression is. The parser found the error at, or at the end.
func celSlip(expression string, at int, atEnd bool) (int, string) {
	var open []int // brackets
	for i := 0; i < len(expression); {
		rest := expression[i:]
		if rest[0] == '"' || rest[0] == '\'' {
			size := textSize(rest)
			if size < 0 {
				return i, fmt.Sprintf("a text begins with %c that no %[1]c closes: one is missing, there or before it", rest[0])
			}
			i += size
			continue
		}
		for _, s := range slips {
			if s.pattern.MatchString(rest) && (i == 0 || !wordCharacter(expression[i-1]) || !wordCharacter(rest[0])) {
				return i, s.message
			}
		}
		size := 1
		for _, operator := range celOperators {
			if strings.HasPrefix(rest, operator) {
				size = 2
			}
		}
		switch closing := strings.IndexByte(")]}", rest[0]); {
		case strings.IndexByte("([{", rest[0]) >= 0:
			open = append(open, i)
		case closing >= 0 && len(open) == 0:
			return i, fmt.Sprintf("%q closes nothing", rest[:1])
		case closing >= 0 && expression[open[len(open)-1]] != "([{"[closing]:
			return i, unclosed(expression, open[len(open)-1])
		case closing >= 0:
			open = open[:len(open)-1]
		}
		i += size
	}
	switch {
	case len(open) > 0:
		return open[len(open)-1], unclosed(expression, open[len(open)-1])
	case strings.TrimSpace(expression) == "":
		return 0, "it is empty: leave it out for all devices"
	case atEnd && strings.TrimSpace(expression[min(at, len(expression)):]) == "":
		return len(strings.TrimRightFunc(expression, unicode.IsSpace)), "something is missing at the end"
	}
	word := regexp.MustCompile(`^(\w+|"[^"]*"|'[^']*'|.)`).FindString(expression[min(at, len(expression)):])
	return at, text.Quote(word, 64) + " is not expected there: an operator such as == or && may be missing before it"
}

func unclosed(expression string, at int) string {
	closing := map[byte]string{'(': ")", '[': "]", '{': "}"}[expression[at]]
	return fmt.Sprintf("%q is not closed by %q", expression[at:at+1], closing)
}

func wordCharacter(c byte) bool {
	return c == '_' || c == '.' || unicode.IsLetter(rune(c)) || unicode.IsDigit(rune(c))
}

// textSize returns the size of the text in quotes that an expression begins with; -1 if it is not closed.
func textSize(expression string) int {
	for i := 1; i < len(expression); i++ {
		switch expression[i] {
		case '\\':
			i++
		case expression[0]:
			return i + 1
		case '\n':
			return -1
		}
	}
	return -1
}

var (
	undeclared   = regexp.MustCompile(`^undeclared reference to '([^']*)'`)
	undefined    = regexp.MustCompile(`^undefined field '([^']*)'`)
	noOverload   = regexp.MustCompile(`^found no matching overload for '(.*)' applied to '(.*)'$`)
	wrongResult  = regexp.MustCompile(`^must evaluate to bool or the unknown type, not (.*)$`)
	operatorName = regexp.MustCompile(`^_(\W+)_$`)
	operandLeft  = regexp.MustCompile(`[\w.\[\]"'/-]+\s*$`)
	// comparedBefore matches what ends in an operator of comparison, or in a list.
	comparedBefore = regexp.MustCompile(`([=!]=|[<>]=?|\bin\s*\[[^\]]*)\s*$`)
	inBefore       = regexp.MustCompile(`\bin\s*$`)
	otherEntry     = regexp.MustCompile(`^expected type '(.*)' but found '(.*)'$`)
	operandRight   = regexp.MustCompile(`^\s*(quantity\("[^"]*"\)|semver\("[^"]*"\)|"[^"]*"|'[^']*'|[0-9.]+)`)
)

// celFunctions are the functions of selectors that people use, for suggestions.
var celFunctions = []string{
	"startsWith", "endsWith", "contains", "matches", "size", "lowerAscii", "upperAscii", "all", "exists", "filter", "map", "has", "quantity", "semver",
	"isGreaterThan", "isLessThan", "compareTo", "isQuantity", "isSemver", "asInteger", "asApproximateFloat", "includes", "string", "int",
}

const deviceFields = `device.driver, device.attributes["DOMAIN"].NAME and device.capacity["DOMAIN"].NAME`

// plainError returns the message of an error that is not one of syntax, and whose place is at.
func plainError(expression string, at int, message string) string {
	after := func(name string) string { return strings.TrimSpace(strings.TrimPrefix(expression[at:], name)) }
	if m := undeclared.FindStringSubmatch(message); m != nil {
		name := m[1]
		if rest := strings.TrimPrefix(after(name), "."+name); strings.HasPrefix(rest, "(") || strings.HasPrefix(expression[at:], "(") {
			hint := suggestion.DidYouMean(name, celFunctions)
			if i := slices.IndexFunc(celFunctions, func(f string) bool { return f == name+"Ascii" }); i >= 0 {
				hint = fmt.Sprintf("; did you mean %q?", celFunctions[i])
			}
			return "there is no function " + name + hint
		}
		if strings.HasSuffix(strings.TrimSpace(expression[:at]), "[") && strings.HasPrefix(after(name), "]") {
			return fmt.Sprintf("%s is a text there: write [%q]", name, name)
		}
		if inBefore.MatchString(expression[:at]) && name != "device" {
			return fmt.Sprintf("there is no name %s: texts are in quotes, and a list of them in brackets: [%q]", name, name)
		}
		if lower := strings.ToLower(name); lower == "true" || lower == "false" {
			return fmt.Sprintf("there is no name %s: write %s", name, lower)
		}
		if comparedBefore.MatchString(expression[:at]) && name != "device" {
			return fmt.Sprintf("there is no name %s: a text is in quotes, %q", name, name)
		}
		return fmt.Sprintf("there is no name %s%s; a selector reads %s", name, suggestion.DidYouMean(name, []string{"device"}), deviceFields)
	}
	if m := undefined.FindStringSubmatch(message); m != nil && slices.Contains(Facts(), m[1]) {
		return fmt.Sprintf("there is no field %s: write device.attributes[%q].%[1]s", m[1], FactsDomain)
	}
	if m := undefined.FindStringSubmatch(message); m != nil {
		return fmt.Sprintf("there is no field %s%s; a selector reads %s", m[1], suggestion.DidYouMean(m[1], []string{driverField, attributesField, capacityField}), deviceFields)
	}
	if m := noOverload.FindStringSubmatch(message); m != nil {
		return overload(expression, at, m[1], m[2])
	}
	if m := otherEntry.FindStringSubmatch(message); m != nil {
		return fmt.Sprintf("%s stands where %s must: all entries of a list are of one type", celType(m[2]), celType(m[1]))
	}
	if m := wrongResult.FindStringSubmatch(message); m != nil {
		if domain := wholeDomain(expression); domain != "" && strings.HasPrefix(m[1], "map") {
			return domain
		}
		example := `x == "..."`
		switch m[1] {
		case "kubernetes.Quantity":
			example = `x.compareTo(quantity("8Gi")) >= 0`
		case "int", "uint", "double":
			example = "x == 1"
		}
		return "it must be true or false for a device, is " + celType(m[1]) + ": compare it, as in " + example
	}
	if message == "invalid matches argument" {
		pattern := operandRight.FindString(expression[at:])
		if value, err := strconv.Unquote(pattern); err == nil {
			if _, err = regexp.Compile(value); err != nil {
				return fmt.Sprintf("%s is not a regular expression: %s", pattern, strings.TrimPrefix(err.Error(), "error parsing regexp: "))
			}
		}
		return "the text is not a regular expression"
	}
	if strings.HasPrefix(message, "expression recursion limit exceeded") {
		return "it is nested too deeply"
	}
	return text.Printable(message, maxDetail)
}

// domainUse matches a domain of attributes or capacities in an expression, and what follows it.
var domainUse = regexp.MustCompile(`device\.(attributes|capacity)(?:\[\s*["']([^"']*)["']\s*\]|\.(\w+))(\.\w+\(|.?)`)

// wholeDomain returns how to write one attribute where an expression has a domain with all that are in it; "" if it has none.
func wholeDomain(expression string) string {
	for _, m := range domainUse.FindAllStringSubmatch(expression, -1) {
		if m[4] == "." || m[4] == "[" {
			continue
		}
		r := Reference{Field: m[1], Domain: m[2] + m[3]}
		what := map[string]string{attributesField: "attributes", capacityField: "capacities"}[r.Field]
		right := Reference{r.Field, "BACKEND", "NAME"}
		for _, separator := range []string{"/", "."} {
			if domain, name, found := strings.Cut(r.Domain, separator); found && attributeSyntax.MatchString(name) {
				right.Domain, right.Name = domain, name
				break
			}
		}
		return fmt.Sprintf("%s stands for all %s of a domain: write %s", r, what, right)
	}
	return ""
}

// overload returns how to compare what an operator cannot, or what a function cannot be called with.
func overload(expression string, at int, function, types string) string {
	if domain := wholeDomain(expression); domain != "" && strings.Contains(types, "map(") {
		return domain
	}
	var names []string
	for name := range strings.SplitSeq(strings.NewReplacer(".(", ", ", "(", "", ")", "").Replace(types), ", ") {
		names = append(names, celType(name))
	}
	m := operatorName.FindStringSubmatch(function)
	if m == nil {
		return call(expression, at, strings.Trim(function, "@_"), names)
	}
	for _, comparable := range []struct{ name, function, example string }{{"Quantity", "quantity", "8Gi"}, {"Semver", "semver", "1.2.3"}} {
		if !strings.Contains(types, "kubernetes."+comparable.name) {
			continue
		}
		left, right := "x", strconv.Quote(comparable.example)
		if found := operandLeft.FindString(expression[:at]); found != "" {
			left = strings.TrimSpace(found)
		}
		if found := operandRight.FindStringSubmatch(strings.TrimPrefix(expression[at:], m[1])); found != nil {
			right = strings.Trim(found[1], `'"`)
			right = strings.TrimSuffix(strings.TrimPrefix(right, comparable.function+`("`), `")`)
			right = strconv.Quote(strings.TrimSuffix(right, `")`))
		}
		return fmt.Sprintf("%s is not compared by %s: write %s.compareTo(%s(%s)) %s 0", celType("kubernetes."+comparable.name), m[1], left, comparable.function, right, m[1])
	}
	return fmt.Sprintf("%s and %s cannot stand at the sides of %s", names[0], names[len(names)-1], m[1])
}

// call returns how to call what a function cannot be called with, whose types are names.
func call(expression string, at int, function string, names []string) string {
	last := names[len(names)-1]
	value := strings.Trim(operandRight.FindString(strings.TrimLeft(strings.TrimPrefix(expression[at:], function), "( ")), `"' `)
	switch {
	case function == "in" && value != "" && last == "a text":
		return fmt.Sprintf("in needs a list: write in [%q]", value)
	case function == "in":
		return `in needs a list: x in ["a", "b"]`
	case slices.Contains(textFunctions, function):
		return fmt.Sprintf("%s is for texts, and is used with %s", function, strings.Join(names, " and "))
	case (function == "quantity" || function == "semver") && value != "":
		return fmt.Sprintf("%s is made of a text: write %[1]s(%q)", function, value)
	case !slices.Contains([]string{"compareTo", "isGreaterThan", "isLessThan"}, function):
	case names[0] == celType("kubernetes.Quantity"):
		return fmt.Sprintf("%s compares a quantity with a quantity: write %[1]s(quantity(%q))", function, cmp.Or(value, "8Gi"))
	case versionParts.FindString(value) == value && value != "":
		return fmt.Sprintf("%s compares a version with a version: write %[1]s(semver(%q))", function, value+strings.Repeat(".0", 2-strings.Count(value, ".")))
	default:
		return function + " is for quantities and versions: texts and numbers are compared by == and <"
	}
	return fmt.Sprintf("%s cannot be used with %s", function, strings.Join(names, " and "))
}

// celType returns a type of CEL for people.
func celType(name string) string {
	switch name {
	case "string":
		return "a text"
	case "int", "uint":
		return "a whole number"
	case "double":
		return "a number"
	case "bool":
		return "true or false"
	case "kubernetes.Quantity":
		return "a quantity"
	case "kubernetes.Semver":
		return "a version"
	}
	switch {
	case strings.HasPrefix(name, "list"):
		return "a list"
	case strings.HasPrefix(name, "map"):
		return "a mapping"
	}
	return "a device or a value of unknown type"
}

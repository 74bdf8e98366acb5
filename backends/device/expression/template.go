package expression

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// maxValues is how many texts a template may become.
const maxValues = 64

// Template is text in which expressions are replaced. It is safe for concurrent use.
type Template struct {
	text  string
	parts []part
}

// part is literal text, or an expression.
type part struct {
	literal string
	program *Program
}

// goTemplate and shellVariable match what begins as an expression of other templates does.
var (
	goTemplate    = regexp.MustCompile(`^\{\{ *[.\w]+ *\}\}`)
	shellVariable = regexp.MustCompile(`^\$(` + strings.Join(variables, "|") + `)\b`)
)

// CompileTemplate compiles a template: {expression}, where {{ and }} stand for braces. Want is
// [Text] or [Texts]. The error is for users.
func CompileTemplate(text string, want Want) (*Template, error) {
	t := &Template{text: text}
	if text == "" {
		return nil, errors.New("it is empty: write a text, or leave the field out")
	}
	literal := strings.Builder{}
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '{' && goTemplate.MatchString(text[i:]):
			return nil, fmt.Errorf("%q has an expression in two braces, which stand for the characters: write one, as in {name}", text)
		case c == '{' && strings.HasSuffix(text[:i], "$"):
			return nil, fmt.Errorf("%q has a $ before an expression: leave it out, as in {name}", text)
		case c == '$' && shellVariable.MatchString(text[i:]):
			return nil, fmt.Errorf("%q has %s: write {%s}", text, shellVariable.FindString(text[i:]), shellVariable.FindStringSubmatch(text[i:])[1])
		case (c == '{' || c == '}') && strings.HasPrefix(text[i+1:], string(c)):
			literal.WriteByte(c)
			i++
		case c == '}':
			return nil, fmt.Errorf("%q has a } without {: write }} for the character", text)
		case c == '{':
			end := closing(text[i+1:])
			if end < 0 {
				return nil, fmt.Errorf("%q has a { without }: write {{ for the character", text)
			}
			program, err := Compile(text[i+1:i+1+end], want)
			if err != nil {
				return nil, err
			}
			t.parts = append(t.parts, part{literal: literal.String()}, part{program: program})
			literal.Reset()
			i += end + 1
		default:
			literal.WriteByte(c)
		}
	}
	t.parts = append(t.parts, part{literal: literal.String()})
	return t, nil
}

// closing returns the index of the brace that closes an expression: one that is neither in a
// string nor of a map; -1 if there is none.
func closing(text string) int {
	depth, quote := 0, byte(0)
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case quote != 0 && c == '\\':
			i++
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case c == '"' || c == '\'':
			quote = c
		case c == '{':
			depth++
		case c == '}' && depth > 0:
			depth--
		case c == '}':
			return i
		}
	}
	return -1
}

// Pattern returns the template with * for each expression: a pattern for all that it may
// become.
func (t *Template) Pattern() string {
	var pattern strings.Builder
	for _, p := range t.parts {
		if p.program != nil {
			pattern.WriteByte('*')
		}
		pattern.WriteString(p.literal)
	}
	return pattern.String()
}

// Constant reports whether the template has no expression.
func (t *Template) Constant() bool { return len(t.parts) == 1 }

// product returns each text with each of the values behind it.
func product(texts, values []string) []string {
	var all []string
	for _, text := range texts {
		for _, v := range values {
			all = append(all, text+v)
		}
	}
	return all
}

// Text evaluates a template of [Text].
func (t *Template) Text(s *Scope) (string, error) {
	all, err := t.Texts(s)
	if err != nil || len(all) == 0 {
		return "", err
	}
	return all[0], nil
}

// Texts evaluates a template: a text for each element of its lists, none if one is empty. The
// error names the expression that failed.
func (t *Template) Texts(s *Scope) ([]string, error) {
	all := []string{""}
	for _, p := range t.parts {
		values := []string{p.literal}
		if p.program != nil {
			got, err := p.program.Eval(s)
			if err != nil {
				return nil, err
			}
			switch v := got.(type) {
			case string:
				values = []string{v}
			case int64:
				values = []string{strconv.FormatInt(v, 10)}
			case []string:
				values = v
			}
		}
		if len(all)*len(values) > maxValues {
			return nil, fmt.Errorf("%s has more than %d values", t.text, maxValues)
		}
		all = product(all, values)
	}
	return all, nil
}

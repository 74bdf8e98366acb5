package config

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/accelmux/accelmux/core/suggestion"
)

const (
	// maxPlaceholders is more than a name of 63 characters has room for in practice.
	maxPlaceholders = 8
	// edges are allowed inside the name part of a qualified name, but not at its ends.
	edges = "-_."
)

// NameTemplate is the name of a resource, with or without placeholders. It never
// changes.
//
//	name        = domain "/" { literal | placeholder }
//	placeholder = "{" attribute "}" | "{accelmux.io/" fact "}"
//
// The domain is literal. A placeholder is replaced by the value of a device's attribute, or by
// one of [Facts].
type NameTemplate struct {
	domain string
	parts  []namePart
}

// namePart is either a text or a placeholder.
type namePart struct{ text, attribute string }

// ParseName parses the name of a resource. A name without placeholders must be an extended
// resource name (IsExtendedResourceName of k8s.io/kubernetes). With placeholders, the text
// around them must be able to be part of one.
func ParseName(name string) (*NameTemplate, error) {
	if !strings.ContainsAny(name, "{}") {
		domain, rest, _ := strings.Cut(name, "/")
		return &NameTemplate{domain: domain, parts: []namePart{{text: rest}}}, checkResourceName(name)
	}
	domain, rest, found := strings.Cut(name, "/")
	switch {
	case strings.ContainsAny(domain, "{}"):
		return nil, fmt.Errorf("the domain must be written out: placeholders may be after the slash only, as in example.com/{model}, is %s", show(name))
	case !found || domain == "":
		return nil, fmt.Errorf("must be domain/name, such as example.com/{model}, is %s", show(name))
	}
	if err := checkResourceName(domain + "/x"); err != nil {
		return nil, err
	}
	t := &NameTemplate{domain: domain}
	for rest != "" {
		part, after, err := cutPart(rest)
		if err != nil {
			return nil, err
		}
		t.parts, rest = append(t.parts, part), after
	}
	return t, t.check()
}

// twoBraces matches a placeholder of other templates.
var twoBraces = regexp.MustCompile(`^\{\{\s*([A-Za-z0-9_]+)\s*\}\}`)

// cutPart cuts the first part off a template, which must not be empty.
func cutPart(template string) (part namePart, rest string, err error) {
	i := strings.IndexAny(template, "{}")
	switch {
	case i < 0:
		return namePart{text: template}, "", nil
	case i > 0:
		return namePart{text: template[:i]}, template[i:], nil
	case template[0] == '}':
		return part, "", fmt.Errorf("a closing brace without an opening one, at %s; braces are for placeholders only", show(template))
	}
	inner := template[1:]
	if m := twoBraces.FindStringSubmatch(template); m != nil {
		return part, "", fmt.Errorf("a placeholder has one brace on each side: write {%s}", m[1])
	}
	end := strings.IndexAny(inner, "{}")
	if end < 0 || inner[end] == '{' {
		return part, "", fmt.Errorf("the placeholder that begins at %s is not closed by a brace", show(template))
	}
	return namePart{attribute: inner[:end]}, inner[end+1:], checkPlaceholder(inner[:end])
}

func checkPlaceholder(attribute string) error {
	if attribute == "" {
		return errors.New("an empty placeholder {}: put the name of an attribute into the braces, as in {model}")
	}
	domain, fact, qualified := strings.Cut(attribute, "/")
	switch {
	case !qualified:
		if err := checkIdentifier("an attribute", attribute); err != nil {
			return fmt.Errorf("a placeholder %w", err)
		}
	case domain != FactsDomain:
		if err := checkIdentifier("an attribute", fact); err != nil || len(validation.IsDNS1123Subdomain(domain)) > 0 || !strings.Contains(domain, ".") {
			return fmt.Errorf("a placeholder is the name of an attribute alone, whatever the backend, or one with its domain, "+
				"such as resource.kubernetes.io/pcieRoot, or %s/ and one of %s, is %s", FactsDomain, strings.Join(Facts(), ", "), show(attribute))
		}
	case !slices.Contains(Facts(), fact):
		return fmt.Errorf("no attribute %s in the domain %q%s", show(fact), FactsDomain, suggestion.OrAll(fact, "it has", Facts()))
	}
	return nil
}

// check checks the parts together.
func (t *NameTemplate) check() error {
	length := 0
	for i, part := range t.parts {
		switch {
		case part.text == "":
			continue
		case strings.ContainsFunc(part.text, func(r rune) bool { return !nameCharacter(r) }):
			return fmt.Errorf("the part after the slash must be letters, digits, dashes, underscores and dots, beside placeholders, but has %s", show(part.text))
		case i == 0 && strings.ContainsRune(edges, rune(part.text[0])),
			i == len(t.parts)-1 && strings.ContainsRune(edges, rune(part.text[len(part.text)-1])):
			return fmt.Errorf("the part after the slash must have a letter, a digit or a placeholder at both ends, but one is that of %s", show(part.text))
		}
		length += len(part.text)
	}
	switch n := len(t.Placeholders()); {
	case n > maxPlaceholders:
		return fmt.Errorf("at most %d placeholders can be in a name, these are %d", maxPlaceholders, n)
	case length+n > maxResourceName:
		return fmt.Errorf("the part after the slash leaves no room for its placeholders: %d characters beside them, and a name has at most %d", length, maxResourceName)
	}
	return nil
}

// Placeholders returns the attributes in the name, in their order: the bare name of a device's
// attribute, or "accelmux.io/" and the name of a fact. Nil for a literal name.
func (t *NameTemplate) Placeholders() []string {
	var attributes []string
	for _, part := range t.parts {
		if part.attribute != "" {
			attributes = append(attributes, part.attribute)
		}
	}
	return attributes
}

// Name replaces the placeholders by values, one for each. Characters that a qualified name
// cannot have are replaced (QualifiedText), and cut off at the ends. The error is a clause that
// follows "the name": it would be empty, or too long.
func (t *NameTemplate) Name(values ...string) (string, error) {
	var b strings.Builder
	for _, part := range t.parts {
		if part.attribute == "" {
			b.WriteString(part.text)
			continue
		}
		b.WriteString(QualifiedText(values[0]))
		values = values[1:]
	}
	rest := strings.Trim(b.String(), edges)
	switch {
	case rest == "":
		return "", errors.New("would be empty: it must have a letter or a digit (A-Z, a-z, 0-9)")
	case len(rest) > maxResourceName:
		return "", fmt.Errorf("would have %d characters after the slash, at most %d are allowed", len(rest), maxResourceName)
	}
	return t.domain + "/" + rest, nil
}

// Matches reports whether values may exist for which Name returns this name. It may return true
// for a name without such values, but never false for one that has them.
func (t *NameTemplate) Matches(name string) bool {
	rest, ok := strings.CutPrefix(name, t.domain+"/")
	if !ok {
		return false
	}
	first, last := t.parts[0].text, t.parts[len(t.parts)-1].text
	if len(t.parts) == 1 && first != "" {
		return rest == first
	}
	// A literal may be cut where the placeholder beside it is empty.
	rest, ok = strings.CutPrefix(rest, strings.TrimRight(first, edges))
	return ok && strings.HasSuffix(rest, strings.TrimLeft(last, edges))
}

// QualifiedText replaces the characters that a qualified name or the value of a label cannot
// have: "+" becomes ".", as in the names of MIG resources, and any other run of them "-". The
// result may still begin or end with a character that is not allowed there.
func QualifiedText(text string) string {
	var b strings.Builder
	replaced := false
	for _, r := range text {
		switch {
		case nameCharacter(r):
			b.WriteRune(r)
			replaced = false
		case r == '+':
			b.WriteByte('.')
			replaced = false
		case !replaced:
			b.WriteByte('-')
			replaced = true
		}
	}
	return b.String()
}

// nameCharacter reports whether a qualified name may contain r (validation.IsQualifiedName of
// k8s.io/apimachinery).
func nameCharacter(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r < 0x80 && strings.ContainsRune(edges, r)
}

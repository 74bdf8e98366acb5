package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"github.com/accelmux/accelmux/core/suggestion"
)

// MaxFileSize bounds a configuration file, in bytes. It is what a ConfigMap can
// hold.
const MaxFileSize = 1 << 20

// Load reads and parses the file at path. The error is an [Errors] if the content is invalid,
// and wraps the system's error if the file cannot be read.
func Load(path string) (*NodeConfig, error) {
	event := Read(path)
	return event.Config, event.Err
}

// Read is Load, and also returns the file's content.
func Read(path string) Event {
	data, err := ReadFile(path)
	if err != nil {
		return Event{Err: err}
	}
	return eventOf(path, data)
}

func eventOf(path string, data []byte) Event {
	config, err := Parse(path, data)
	if err != nil {
		return Event{Err: err}
	}
	return Event{Config: config, Data: data}
}

// Parse reads a configuration from data; name stands for the file in errors.
// The result is complete, valid and the caller's own. The error is an [Errors] with all
// errors.
func Parse(name string, data []byte) (*NodeConfig, error) {
	c, err := ParsePartly(name, data)
	if err != nil {
		return nil, err
	}
	return c, nil
}

// ParsePartly is Parse, and also returns what can be read of an invalid configuration, for further checks; nil if there
// is nothing.
func ParsePartly(name string, data []byte) (*NodeConfig, error) {
	d, c := newDecoder(name), &NodeConfig{}
	root := d.document(data)
	if root == nil {
		return nil, d.errs.Err()
	}
	d.positions[""] = PositionOf(root)
	d.value(root, PositionOf(root), reflect.ValueOf(c).Elem(), "")
	if len(d.errs) > 0 {
		if what := otherDocument(name, newDecoder("").any(root, PositionOf(root), "")); what != "" {
			return nil, Errors{{File: name, Message: what}}
		}
	}
	if d.failed[""] {
		return nil, d.errs.Err()
	}
	fillDefaults(c, d.given)
	v := &validator{decoder: d, prefixes: map[string]bool{}}
	v.config(c)
	return c, d.errs.Err()
}

// given reports whether the file sets the field.
func (d *decoder) given(path string) bool {
	_, ok := d.positions[path]
	return ok
}

// document returns the content of the file's single YAML document. If there is none it reports
// an error and returns nil.
func (d *decoder) document(data []byte) *yaml.Node {
	if len(data) > MaxFileSize {
		d.fail(Position{}, "", "the file is bigger than %d bytes", MaxFileSize)
		return nil
	}
	if bytes.ContainsFunc(data, isOtherSpace) {
		d.rows = strings.Split(string(data), "\n")
	}
	in := yaml.NewDecoder(bytes.NewReader(data))
	var doc, second yaml.Node
	err := in.Decode(&doc)
	if errors.Is(err, io.EOF) || err == nil && isEmpty(&doc) {
		d.fail(Position{}, "", "the file is empty; it must start with %s", d.opening)
		return nil
	}
	if err != nil {
		d.syntax(data, err)
		return nil
	}
	switch err := in.Decode(&second); {
	case errors.Is(err, io.EOF):
	case err != nil:
		d.syntax(data, err)
		return nil
	default:
		d.fail(Position{Line: second.Line}, "", "a second YAML document starts here; a file holds exactly one")
		return nil
	}
	root := doc.Content[0]
	if at, err := checkBounds(root); err != nil {
		d.fail(PositionOf(at), "", "the file is %s", err)
		return nil
	}
	return root
}

func isEmpty(doc *yaml.Node) bool {
	return len(doc.Content) == 0 || doc.Content[0].Kind == 0 || isNull(doc.Content[0]) && doc.Content[0].Value == ""
}

var (
	yamlLine = regexp.MustCompile(`^line (\d+): `)
	// unquotedBrace matches a line with a value like {model}/x, which YAML takes for a mapping.
	unquotedBrace = regexp.MustCompile(`[:-]\s+\{[\w./-]+\}\S`)
	// parserError matches errors of the YAML library's parser, which counts lines from 0; its scanner counts from 1.
	parserError   = regexp.MustCompile(`^did not find expected (key|node content|'-' indicator|',' or|<)`)
	unknownAnchor = regexp.MustCompile(`^unknown anchor '([^']*)' referenced`)
)

// syntax reports an error of the YAML library: the mistake where it is, if it is a known one, and otherwise in the library's
// place, whose parser counts lines from 0 and its scanner from 1.
func (d *decoder) syntax(data []byte, err error) {
	text, line := strings.TrimPrefix(err.Error(), "yaml: "), 0
	rows := strings.Split(string(data), "\n")
	if m := yamlLine.FindStringSubmatch(text); m != nil {
		line, _ = strconv.Atoi(m[1])
		text = text[len(m[0]):]
	}
	if m := unknownAnchor.FindStringSubmatch(text); m != nil {
		line = 1 + slices.IndexFunc(rows, func(row string) bool { return strings.Contains(row, "*"+m[1]) })
		d.fail(Position{Line: line}, "", "this is not YAML: *%[1]s stands for what &%[1]s marks, which is not above; a text that begins with * must be in quotes", m[1])
		return
	}
	if row := slices.IndexFunc(rows, func(row string) bool { return !utf8.ValidString(row) }); row >= 0 && !bytes.ContainsFunc(data, isControl) {
		d.fail(Position{Line: row + 1}, "", "the file is not in UTF-8 here: save it as UTF-8")
		return
	}
	if strings.Contains(text, "control characters") || strings.Contains(text, "UTF-8") {
		d.fail(Position{}, "", "this is not a text file: %s", text)
		return
	}
	if brace := slices.IndexFunc(rows, unquotedBrace.MatchString); brace >= 0 {
		d.fail(Position{Line: brace + 1}, "", "this is not YAML: a text that begins with { must be in quotes")
		return
	}
	if found := slipIn(string(data)); found != nil {
		d.fail(Position{Line: found.row + 1}, "", "this is not YAML: %s", found.message)
		return
	}
	if parserError.MatchString(text) {
		line++
	}
	d.fail(Position{Line: line}, "", "this is not YAML: %s", plainSyntax(text))
}

// isControl reports whether a character is none of a text file.
func isControl(r rune) bool { return r < ' ' && r != '\t' && r != '\n' && r != '\r' }

// plainSyntax returns what an error of the YAML library means.
func plainSyntax(text string) string {
	switch {
	case strings.HasPrefix(text, "did not find expected key"), strings.HasPrefix(text, "did not find expected '-' indicator"):
		return "what is there, or on the next line, is neither a field nor an entry of a list: is it indented as those before?"
	case strings.HasPrefix(text, "did not find expected ',' or"):
		return "a comma or a closing bracket is missing; within { } and [ ] a text with brackets, braces, commas or quotes must be in quotes as a whole"
	case strings.HasPrefix(text, "mapping values are not allowed"):
		return "the field is indented as if it belonged to the one before, which has a value already"
	case strings.HasPrefix(text, "could not find expected ':'"):
		return "a colon is missing"
	case strings.HasPrefix(text, "did not find expected whitespace or line break"): // after a tag
		return "a text that begins with ! must be in quotes"
	}
	return text
}

// ReadFile reads a configuration file, one byte more than [MaxFileSize] at most. It refuses anything but a regular file before opening
// it: opening a named pipe would wait for a writer.
func ReadFile(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("read the configuration: %w", err)
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("read the configuration: %s is not a regular file", path)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read the configuration: %w", err)
	}
	defer func() { _ = f.Close() }()
	data, err := io.ReadAll(io.LimitReader(f, MaxFileSize+1))
	if err != nil {
		return nil, fmt.Errorf("read the configuration: %w", err)
	}
	return data, nil
}

// DefaultProfile is the name of the profile that applies if no other is chosen.
const DefaultProfile = "default"

// Profile returns the profile with the name. The error lists the profiles.
func (c *NodeConfig) Profile(name string) (*Profile, error) {
	names := make([]string, len(c.Profiles))
	for i := range c.Profiles {
		if names[i] = c.Profiles[i].Name; names[i] == name {
			return &c.Profiles[i], nil
		}
	}
	slices.Sort(names)
	return nil, fmt.Errorf("no profile %s%s", show(name), suggestion.OrAll(name, "the configuration has", names))
}

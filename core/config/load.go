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
	return parsed(path, data)
}

func parsed(path string, data []byte) Event {
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
		return nil, d.errs.finish()
	}
	d.positions[""] = PositionOf(root)
	d.value(root, PositionOf(root), reflect.ValueOf(c).Elem(), "")
	if d.failed[""] {
		return nil, d.errs.finish()
	}
	fillDefaults(c, d.given)
	v := &validator{decoder: d, prefixes: map[string]bool{}}
	v.config(c)
	return c, d.errs.finish()
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
	// parserError matches errors of the YAML library's parser, which counts lines from 0; its
	// scanner counts from 1.
	parserError = regexp.MustCompile(`^did not find expected (key|node content|'-' indicator|',' or|<)`)
)

// syntax reports an error of the YAML library, and takes the line from its text.
func (d *decoder) syntax(data []byte, err error) {
	text, line := strings.TrimPrefix(err.Error(), "yaml: "), 0
	if m := yamlLine.FindStringSubmatch(text); m != nil {
		line, _ = strconv.Atoi(m[1])
		text = text[len(m[0]):]
		if parserError.MatchString(text) {
			line++
		}
	}
	hint := ""
	if strings.HasPrefix(text, "did not find expected ',' or '}'") {
		hint = "; within { } a text with brackets, braces, commas or quotes must be in quotes as a whole"
	}
	if rows := strings.Split(string(data), "\n"); line > 0 && line <= len(rows) && unquotedBrace.MatchString(rows[line-1]) {
		hint = "; a text that begins with { must be in quotes"
	}
	d.fail(Position{Line: line}, "", "this is not YAML: %s%s", text, hint)
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
	return nil, fmt.Errorf("no profile %s%s; the configuration has: %s",
		show(name), suggestion.DidYouMean(name, names), strings.Join(names, ", "))
}

package bitstream

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode"

	"github.com/accelmux/accelmux/backends/sysfs"
)

// Bounds for metadata. They are far above real values, and bound logs and attributes made of it.
const (
	maxAccelerators = 64
	maxContexts     = 65536
	maxClockMHz     = 10_000
	maxPowerW       = 10_000
	maxName         = 512 // as in OPAE's struct gbs_metadata
	maxDepth        = 16
)

// readMetadata reads the used fields of a .gbs's JSON, and ignores others.
func (f *File) readMetadata() error {
	// Tools may pad the metadata.
	top, err := object(bytes.TrimRight(f.Metadata, "\x00 \t\r\n"))
	if err != nil {
		return err
	}
	var r reader
	f.Green.Version = r.number(top, "", "version", maxVersion)
	f.Green.Platform = r.text(top, "", "platform-name")
	image, _ := r.field(top, "", "afu-image").(map[string]any)
	if image == nil && r.err == nil {
		return errors.New("it has no object afu-image")
	}
	const at = "afu-image."
	f.InterfaceID = r.id(image, at, "interface-uuid")
	f.Green.PowerW = r.number(image, at, "power", maxPowerW)
	f.Green.ClockHighMHz = r.clock(image, at, "clock-frequency-high")
	f.Green.ClockLowMHz = r.clock(image, at, "clock-frequency-low")
	f.Accelerators = r.accelerators(image)
	return r.err
}

// maxVersion bounds a number that nothing depends on.
const maxVersion = 1e9

// reader takes fields from objects and keeps the first error.
type reader struct{ err error }

func (r *reader) wrong(format string, a ...any) {
	if r.err == nil {
		r.err = fmt.Errorf(format, a...)
	}
}

func (r *reader) field(o map[string]any, at, name string) any {
	v, there := o[name]
	if there && v == nil {
		r.wrong("%s%s is null", at, name)
	}
	return v
}

func (r *reader) text(o map[string]any, at, name string) string {
	switch v := r.field(o, at, name).(type) {
	case nil:
	case string:
		if len(v) <= maxName && !strings.ContainsFunc(v, func(c rune) bool { return !unicode.IsPrint(c) }) {
			return v
		}
		r.wrong("%s%s is %s: at most %d bytes that can be printed were expected", at, name, sysfs.Quote(v), maxName)
	default:
		r.wrong("%s%s is no text", at, name)
	}
	return ""
}

// number returns a number from 0 to most; 0 if there is none.
func (r *reader) number(o map[string]any, at, name string, most float64) float64 {
	switch v := r.field(o, at, name).(type) {
	case nil:
	case json.Number:
		if n, err := v.Float64(); err == nil && n >= 0 && n <= most {
			return n
		}
		r.wrong("%s%s is %.40s: a number from 0 to %v was expected", at, name, v, most)
	default:
		r.wrong("%s%s is no number", at, name)
	}
	return 0
}

// clock returns a frequency. A text ("auto", "auto-315") is an option of the tools that built an
// accelerator function, and sets nothing.
func (r *reader) clock(o map[string]any, at, name string) float64 {
	if text, ok := o[name].(string); ok && strings.HasPrefix(text, "auto") {
		return 0
	}
	return r.number(o, at, name, maxClockMHz)
}

// id returns a required and valid UUID: a card reports all zeros for no ID and all ones when
// nothing is loaded.
func (r *reader) id(o map[string]any, at, name string) UUID {
	if _, there := o[name]; !there {
		r.wrong("%s%s is missing", at, name)
		return UUID{}
	}
	text, ok := r.field(o, at, name).(string)
	if !ok {
		r.wrong("%s%s is no text", at, name)
		return UUID{}
	}
	id, err := ParseUUID(text)
	switch {
	case err != nil:
		r.wrong("%s%s: %w", at, name, err)
	case id.IsZero(), id == none:
		r.wrong("%s%s is %s, which stands for none", at, name, id)
	}
	return id
}

func (r *reader) accelerators(image map[string]any) []Accelerator {
	const name = "afu-image.accelerator-clusters"
	clusters, _ := r.field(image, "afu-image.", "accelerator-clusters").([]any)
	if len(clusters) == 0 || len(clusters) > maxAccelerators {
		r.wrong("%s has to be a list of 1 to %d accelerators", name, maxAccelerators)
		return nil
	}
	out, seen := make([]Accelerator, 0, len(clusters)), map[UUID]bool{}
	for i, cluster := range clusters {
		at := fmt.Sprintf("%s[%d].", name, i)
		o, ok := cluster.(map[string]any)
		if !ok {
			r.wrong("%s is no object", strings.TrimSuffix(at, "."))
			return nil
		}
		contexts := r.number(o, at, "total-contexts", maxContexts)
		a := Accelerator{ID: r.id(o, at, "accelerator-type-uuid"), Name: r.text(o, at, "name"), Contexts: int(contexts)}
		switch {
		case float64(a.Contexts) != contexts:
			r.wrong("%stotal-contexts is %v: a whole number was expected", at, contexts)
		case seen[a.ID]:
			r.wrong("%saccelerator-type-uuid %s is there twice", at, a.ID)
		}
		seen[a.ID] = true
		out = append(out, a)
	}
	return out
}

// object reads one JSON object, and refuses duplicate names, which encoding/json accepts.
func object(data []byte) (map[string]any, error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	v, err := value(d, 0)
	if err != nil {
		return nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("something follows the JSON after %d bytes", d.InputOffset())
	}
	o, ok := v.(map[string]any)
	if !ok {
		return nil, errors.New("the JSON is no object")
	}
	return o, nil
}

func value(d *json.Decoder, depth int) (any, error) {
	t, err := d.Token()
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return nil, fmt.Errorf("the JSON ends early, after %d bytes", d.InputOffset())
	case err != nil:
		return nil, fmt.Errorf("it is no JSON: %w", err)
	case depth > maxDepth:
		return nil, fmt.Errorf("the JSON is nested more than %d deep", maxDepth)
	}
	switch t {
	case json.Delim('{'):
		return members(d, depth)
	case json.Delim('['):
		var list []any
		for d.More() {
			v, err := value(d, depth+1)
			if err != nil {
				return nil, err
			}
			list = append(list, v)
		}
		return list, end(d)
	}
	return t, nil
}

func members(d *json.Decoder, depth int) (any, error) {
	o := map[string]any{}
	for d.More() {
		name, err := value(d, depth+1)
		if err != nil {
			return nil, err
		}
		text, ok := name.(string)
		if !ok {
			return nil, errors.New("it is no JSON: an object has a name that is no text")
		}
		if _, twice := o[text]; twice {
			return nil, fmt.Errorf("%s is there twice in one object", sysfs.Quote(text))
		}
		if o[text], err = value(d, depth+1); err != nil {
			return nil, err
		}
	}
	return o, end(d)
}

// end takes the delimiter that ends a list or an object.
func end(d *json.Decoder) error {
	if _, err := d.Token(); err != nil {
		return fmt.Errorf("the JSON is not closed: %w", err)
	}
	return nil
}

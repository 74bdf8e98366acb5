package sdk

import (
	"bytes"
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
)

// FieldError is what is wrong with one field of the settings.
type FieldError struct {
	// Field is its path, such as devices[2].memory; "" for the settings as a whole.
	Field string
	// Message is what is wrong and what would be right.
	Message string
}

// FieldErrors are the invalid fields of settings, an error for [Configurer.Configure].
type FieldErrors []FieldError

// Error returns a line for each field.
func (e FieldErrors) Error() string {
	texts := make([]string, 0, len(e))
	for _, f := range e {
		if f.Field == "" {
			texts = append(texts, f.Message)
		} else {
			texts = append(texts, f.Field+": "+f.Message)
		}
	}
	return strings.Join(texts, "\n")
}

// Add appends an error.
func (e *FieldErrors) Add(field, format string, args ...any) {
	*e = append(*e, FieldError{Field: field, Message: fmt.Sprintf(format, args...)})
}

// Err returns e as an error, nil if it is empty.
func (e FieldErrors) Err() error {
	if len(e) == 0 {
		return nil
	}
	return e
}

// Duration is a time.Duration in settings, written as in Go: 30s, 1m.
type Duration time.Duration

// UnmarshalText implements [encoding.TextUnmarshaler].
func (d *Duration) UnmarshalText(text []byte) error {
	parsed, err := time.ParseDuration(string(text))
	if err != nil {
		return fmt.Errorf("%q is no duration: write it as 30s or 1m", text)
	}
	*d = Duration(parsed)
	return nil
}

// DecodeSettings decodes one JSON value into the variable that into points to, strictly: it
// returns all unknown fields, duplicates, names in another case and values of the wrong type as
// [FieldErrors]. Field names are those of encoding/json; types with UnmarshalJSON or
// UnmarshalText decode themselves. A field that is absent or null keeps its value, so set
// defaults before. After an error the content of the variable is undefined.
func DecodeSettings(data []byte, into any) error {
	v := reflect.ValueOf(into)
	if v.Kind() != reflect.Pointer || v.IsNil() {
		return errors.New("decode settings: the target must be a pointer")
	}
	if err := wellFormed(data); err != nil {
		return FieldErrors{{Message: "not valid JSON: " + err.Error()}}
	}
	var errs FieldErrors
	decode(data, v.Elem(), "", &errs)
	return errs.Err()
}

func wellFormed(data []byte) error {
	var raw json.RawMessage
	dec := json.NewDecoder(bytes.NewReader(data))
	if err := dec.Decode(&raw); err != nil {
		return err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return errors.New("there is more than one value")
	}
	return nil
}

// decode decodes data into v, which is at a path.
func decode(data []byte, v reflect.Value, path string, errs *FieldErrors) {
	if string(bytes.TrimSpace(data)) == "null" {
		return
	}
	if v.Kind() == reflect.Pointer {
		fresh := reflect.New(v.Type().Elem())
		decode(data, fresh.Elem(), path, errs)
		v.Set(fresh)
		return
	}
	if decodesItself(v) {
		decodeLeaf(data, v, path, errs)
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		decodeStruct(data, v, path, errs)
	case reflect.Slice:
		decodeSlice(data, v, path, errs)
	case reflect.Map:
		decodeMap(data, v, path, errs)
	default:
		decodeLeaf(data, v, path, errs)
	}
}

func decodesItself(v reflect.Value) bool {
	switch v.Addr().Interface().(type) {
	case json.Unmarshaler, encoding.TextUnmarshaler:
		return true
	}
	return false
}

func decodeLeaf(data []byte, v reflect.Value, path string, errs *FieldErrors) {
	err := json.Unmarshal(data, v.Addr().Interface())
	var inner FieldErrors
	var wrongType *json.UnmarshalTypeError
	switch {
	case err == nil:
	case errors.As(err, &inner):
		for _, e := range inner {
			errs.Add(nest(path, e.Field), "%s", e.Message)
		}
	case errors.As(err, &wrongType):
		want := kindName(v.Type())
		if _, ok := v.Addr().Interface().(encoding.TextUnmarshaler); ok {
			want = "a string"
		}
		errs.Add(path, "want %s, got %s", want, shorten(data))
	default:
		errs.Add(path, "%s", err)
	}
}

func decodeStruct(data []byte, v reflect.Value, path string, errs *FieldErrors) {
	members, ok := object(data, path, errs)
	if !ok {
		return
	}
	fields := structFields(v)
	for _, m := range members {
		f, ok := fields[m.name]
		if !ok {
			errs.Add(join(path, m.name), "unknown field; there are: %s", strings.Join(sortedKeys(fields), ", "))
			continue
		}
		decode(m.value, f, join(path, m.name), errs)
	}
}

func decodeMap(data []byte, v reflect.Value, path string, errs *FieldErrors) {
	if v.Type().Key().Kind() != reflect.String {
		decodeLeaf(data, v, path, errs)
		return
	}
	members, ok := object(data, path, errs)
	if !ok {
		return
	}
	out := reflect.MakeMapWithSize(v.Type(), len(members))
	for _, m := range members {
		item := reflect.New(v.Type().Elem()).Elem()
		decode(m.value, item, join(path, m.name), errs)
		out.SetMapIndex(reflect.ValueOf(m.name).Convert(v.Type().Key()), item)
	}
	v.Set(out)
}

func decodeSlice(data []byte, v reflect.Value, path string, errs *FieldErrors) {
	var items []json.RawMessage
	if err := json.Unmarshal(data, &items); err != nil {
		errs.Add(path, "want a list, got %s", shorten(data))
		return
	}
	out := reflect.MakeSlice(v.Type(), len(items), len(items))
	for i, item := range items {
		decode(item, out.Index(i), path+"["+strconv.Itoa(i)+"]", errs)
	}
	v.Set(out)
}

type member struct {
	name  string
	value json.RawMessage
}

// object splits a JSON object into its members, in their order.
func object(data []byte, path string, errs *FieldErrors) ([]member, bool) {
	dec := json.NewDecoder(bytes.NewReader(data))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		errs.Add(path, "want an object, got %s", shorten(data))
		return nil, false
	}
	var members []member
	seen := map[string]bool{}
	for dec.More() {
		key, err := dec.Token()
		name, ok := key.(string)
		m := member{name: name}
		if err == nil {
			err = dec.Decode(&m.value)
		}
		if err != nil || !ok {
			errs.Add(path, "not valid JSON: %v", err)
			return nil, false
		}
		if seen[name] {
			errs.Add(join(path, name), "given twice; keep one")
			continue
		}
		seen[name] = true
		members = append(members, m)
	}
	return members, true
}

// structFields returns the fields of a struct by their JSON names, including those of embedded
// structs.
func structFields(v reflect.Value) map[string]reflect.Value {
	fields := map[string]reflect.Value{}
	for i := range v.NumField() {
		f := v.Type().Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case name == "-":
		case f.Anonymous && name == "" && f.Type.Kind() == reflect.Struct:
			for n, inner := range structFields(v.Field(i)) {
				fields[n] = inner
			}
		case !f.IsExported():
		case name == "":
			fields[f.Name] = v.Field(i)
		default:
			fields[name] = v.Field(i)
		}
	}
	return fields
}

// join appends a name to a path; names that are not identifiers are quoted.
func join(path, name string) string {
	plain := name != "" && !strings.ContainsFunc(name, func(r rune) bool {
		return r != '_' && r != '-' && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
	})
	if !plain {
		return path + "[" + strconv.Quote(name) + "]"
	}
	return nest(path, name)
}

// nest appends a path to a path.
func nest(path, inner string) string {
	if path == "" || inner == "" || strings.HasPrefix(inner, "[") {
		return path + inner
	}
	return path + "." + inner
}

func sortedKeys(m map[string]reflect.Value) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

func kindName(t reflect.Type) string {
	switch t.Kind() {
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return "a whole number"
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return "a whole number of 0 or more"
	case reflect.Float32, reflect.Float64:
		return "a number"
	}
	return t.Kind().String()
}

// shorten shortens a JSON value for a message.
func shorten(data []byte) string {
	const limit = 40
	s := strings.Join(strings.Fields(string(data)), " ")
	if len(s) > limit {
		return clip(s, limit) + "..."
	}
	return s
}

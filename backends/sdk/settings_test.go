package sdk

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

type inner struct {
	Name string `json:"name"`
	Size *int   `json:"size"`
}

type embedded struct {
	Base string `json:"base"`
}

type upper string

func (u *upper) UnmarshalText(b []byte) error {
	if *u = upper(b); strings.ToUpper(string(b)) != string(b) {
		return errors.New("want upper case")
	}
	return nil
}

type either struct{ inner }

func (e *either) UnmarshalJSON(b []byte) error { return DecodeSettings(b, &e.inner) }

type everything struct {
	embedded
	Text   string           `json:"text"`
	Yes    bool             `json:"yes"`
	Ratio  float64          `json:"ratio"`
	Small  uint8            `json:"small"`
	List   []inner          `json:"list"`
	Map    map[string]inner `json:"map"`
	Upper  upper            `json:"upper"`
	Either *either          `json:"either"`
	Hidden string           `json:"-"`
	secret string           //nolint:unused // the decoder must not set it
}

func TestDecodeSettings(t *testing.T) {
	two := 2
	for name, tc := range map[string]struct {
		in   string
		want everything
		errs FieldErrors
	}{
		"empty": {in: `{}`, want: everything{Text: "kept"}},
		"all": {
			in: `{"base":"b","text":"t","yes":true,"ratio":0.5,"small":255,"list":[{"name":"a"},{"size":2}],"map":{"k":{"name":"m"}},"upper":"UP","either":{"name":"e"}}`,
			want: everything{
				embedded: embedded{"b"}, Text: "t", Yes: true, Ratio: 0.5, Small: 255,
				List: []inner{{Name: "a"}, {Size: &two}}, Map: map[string]inner{"k": {Name: "m"}},
				Upper: "UP", Either: &either{inner{Name: "e"}},
			},
		},
		"null":               {in: `{"text":null,"list":null,"either":null}`, want: everything{Text: "kept"}},
		"unknown":            {in: `{"txet":1}`, errs: FieldErrors{{"txet", "unknown field; there are: base, either, list, map, ratio, small, text, upper, yes"}}},
		"other case":         {in: `{"Text":"x"}`, errs: FieldErrors{{"Text", "unknown field; there are: base, either, list, map, ratio, small, text, upper, yes"}}},
		"hidden":             {in: `{"Hidden":"x","secret":"y"}`, errs: FieldErrors{{"Hidden", "unknown field; there are: base, either, list, map, ratio, small, text, upper, yes"}, {"secret", "unknown field; there are: base, either, list, map, ratio, small, text, upper, yes"}}},
		"twice":              {in: `{"text":"a","text":"b"}`, errs: FieldErrors{{"text", "given twice; keep one"}}},
		"twice in a map":     {in: `{"map":{"k":{},"k":{}}}`, errs: FieldErrors{{"map.k", "given twice; keep one"}}},
		"wrong types":        {in: `{"text":1,"yes":"y","small":256,"list":{}}`, errs: FieldErrors{{"text", "want a string, got 1"}, {"yes", `want true or false, got "y"`}, {"small", "want a whole number of 0 or more, got 256"}, {"list", "want a list, got {}"}}},
		"deep":               {in: `{"list":[{},{"nam":1}]}`, errs: FieldErrors{{"list[1].nam", "unknown field; there are: name, size"}}},
		"odd key":            {in: `{"map":{"a.b[0]":{"x":1}}}`, errs: FieldErrors{{`map["a.b[0]"].x`, "unknown field; there are: name, size"}}},
		"own text decoder":   {in: `{"upper":"low"}`, errs: FieldErrors{{"upper", "want upper case"}}},
		"no text":            {in: `{"upper":5}`, errs: FieldErrors{{"upper", "want a string, got 5"}}},
		"own JSON decoder":   {in: `{"either":{"x":1}}`, errs: FieldErrors{{"either.x", "unknown field; there are: name, size"}}},
		"no object":          {in: `[1]`, errs: FieldErrors{{"", "want an object, got [1]"}}},
		"not JSON":           {in: `{"text"`, errs: FieldErrors{{"", "not valid JSON: unexpected EOF"}}},
		"trailing":           {in: `{} {}`, errs: FieldErrors{{"", "not valid JSON: there is more than one value"}}},
		"value is shortened": {in: `{"yes":"` + strings.Repeat("z", 100) + `"}`, errs: FieldErrors{{"yes", `want true or false, got "` + strings.Repeat("z", 39) + `...`}}},
	} {
		t.Run(name, func(t *testing.T) {
			got := everything{Text: "kept"}
			err := DecodeSettings([]byte(tc.in), &got)
			var errs FieldErrors
			if err != nil && !errors.As(err, &errs) {
				t.Fatalf("%T: %v", err, err)
			}
			if d := cmp.Diff(tc.errs, errs); d != "" {
				t.Error(d)
			}
			if d := cmp.Diff(tc.want, got, cmp.AllowUnexported(everything{}, either{}, embedded{})); tc.errs == nil && d != "" {
				t.Error(d)
			}
		})
	}
}

func TestFieldErrors(t *testing.T) {
	var e FieldErrors
	if e.Err() != nil {
		t.Error("no errors are an error")
	}
	e.Add("a[0]", "too %s", "big")
	e.Add("", "bad")
	if got := e.Err().Error(); got != "a[0]: too big\nbad" {
		t.Errorf("%q", got)
	}
}

// DecodeSettings refuses what encoding/json refuses, and otherwise has the same result.
func FuzzDecodeSettings(f *testing.F) {
	for _, s := range []string{`{}`, `{"text":"a","list":[{"name":"b","size":3}]}`, `{"map":{"":{}}}`, `null`, `{"either":{"name":null}}`, `{"small":1e2}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var got, want everything
		if err := DecodeSettings(data, &got); err != nil {
			return
		}
		if err := json.Unmarshal(data, &want); err != nil {
			t.Fatalf("accepted, but encoding/json says %v", err)
		}
		if a, b := fmt.Sprintf("%+v", flat(got)), fmt.Sprintf("%+v", flat(want)); a != b {
			t.Errorf("got %s, encoding/json %s", a, b)
		}
	})
}

// flat formats a value with the targets of its pointers; empty is the same as absent.
func flat(e everything) string {
	b, err := json.Marshal(e)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// Durations are written as in Go; anything else is an error with its path.
func TestDuration(t *testing.T) {
	var s struct {
		Rescan Duration `json:"rescan"`
	}
	if err := DecodeSettings([]byte(`{"rescan": "1m30s"}`), &s); err != nil || time.Duration(s.Rescan) != 90*time.Second {
		t.Errorf("1m30s is %v, %v", time.Duration(s.Rescan), err)
	}
	for _, bad := range []string{`"fast"`, `"90"`, `90`} {
		err := DecodeSettings([]byte(`{"rescan": `+bad+`}`), &s)
		var errs FieldErrors
		if !errors.As(err, &errs) || errs[0].Field != "rescan" {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

package config

import (
	"encoding/json"
	"testing"
)

// TestSettings verifies that settings become exactly one JSON object: no digit
// of a number is lost, and what JSON cannot say is refused.
func TestSettings(t *testing.T) {
	tests := map[string]struct{ in, want, wantErr string }{
		"empty":           {in: "{}", want: `{}`},
		"kinds":           {in: `{s: x, b: true, n: null, e: , l: [1, [x]], m: {k: v}}`, want: `{"b":true,"e":null,"l":[1,["x"]],"m":{"k":"v"},"n":null,"s":"x"}`},
		"2^53+1":          {in: "n: 9007199254740993", want: `{"n":9007199254740993}`},
		"more than 64":    {in: "n: -123456789012345678901234567890", want: `{"n":-123456789012345678901234567890}`},
		"long fraction":   {in: "n: 0.1234567890123456789", want: `{"n":0.1234567890123456789}`},
		"other notations": {in: "{h: 0xff, o: 0o17, b: 0b101, u: 1_000, p: +5, f: .5, g: 1., e: 1e3}", want: `{"b":5,"e":1e3,"f":0.5,"g":1,"h":255,"o":15,"p":5,"u":1000}`},
		"yes is a string": {in: "n: yes", want: `{"n":"yes"}`},
		"date is string":  {in: "n: 2024-01-02", want: `{"n":"2024-01-02"}`},
		"characters":      {in: `n: "\0\"\x7f\u2028é😀"`, want: "{\"n\":\"\\u0000\\\"\x7f\\u2028é😀\"}"},
		"alias":           {in: "a: &x {k: 1}\nb: *x\n", want: `{"a":{"k":1},"b":{"k":1}}`},

		"not a mapping":   {in: "[1]", wantErr: "s:1: must be a mapping, is a list"},
		"duplicate":       {in: "a:\n  b: 1\n  b: 2\n", wantErr: "s:3: a.b: set twice, first on line 2"},
		"merge key":       {in: "a: &x {k: 1}\nb:\n  <<: *x\n", wantErr: `s:3: b["<<"]: merge keys are not supported; write the fields out`},
		"infinity":        {in: "a: [.inf]", wantErr: `s:1: a[0]: is not a number in JSON: ".inf"`},
		"leading zero":    {in: "a: 0123", wantErr: `s:1: a: "0123" is ambiguous, octal or decimal: write 0o... for octal, or put it in quotes`},
		"own tag":         {in: "a: !secret x", wantErr: `s:1: a: settings cannot have a value of the type "!secret"; write it as a string`},
		"wrong tag":       {in: "a: !!int x\nb: !!bool x\nc: !!float x\n", wantErr: "s:1: a: is not a whole number: \"x\"\ns:2: b: must be true or false, is \"x\"\ns:3: c: is not a number in JSON: \"x\""},
		"key to be shown": {in: "a b: !x y", wantErr: `s:1: ["a b"]: settings cannot have a value of the type "!x"; write it as a string`},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := settingsOf(tc.in)
			if tc.wantErr != "" {
				if err == nil || withoutColumns(err) != tc.wantErr {
					t.Errorf("error %v\nwant  %s", err, tc.wantErr)
				}
				return
			}
			if err != nil || string(got) != tc.want {
				t.Errorf("got %s, %v\nwant %s", got, err, tc.want)
			}
			if !json.Valid(got) {
				t.Errorf("%s is not JSON", got)
			}
		})
	}
}

// settingsOf reads a document that is settings.
func settingsOf(text string) (Settings, error) {
	d := newDecoder("s")
	root := d.document([]byte(text))
	if root == nil {
		return nil, d.errs.Err()
	}
	return d.settings(root, PositionOf(root), ""), d.errs.Err()
}

func TestDuration(t *testing.T) {
	for text, want := range map[string]string{"10s": "10s", "60s": "1m", "1h": "1h", "1h0m5s": "1h0m5s", "90m": "1h30m", "0s": "0s", "20m": "20m", "100ms": "100ms"} {
		var d Duration
		if err := d.UnmarshalText([]byte(text)); err != nil || d.String() != want {
			t.Errorf("%s became %s, %v; want %s", text, d, err, want)
		}
	}
}

package sdk

import "testing"

// The value of a label begins and ends with a letter or a digit, also where it is cut.
func TestLabelValue(t *testing.T) {
	for text, want := range map[string]string{"a.b": "a.b", "_a-b.": "a-b", "abc-def": "abc", "-._": "", "": ""} {
		if got := LabelValue(text, 4); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

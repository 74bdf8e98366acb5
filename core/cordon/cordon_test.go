package cordon

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// Verifies that what is added is read again, that an entry replaces that of the same device, and that the last removal
// leaves nothing.
func TestEdit(t *testing.T) {
	since := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	one := Entry{Device: "nvidia/GPU-1", By: "alice", Reason: "fan", Since: since}
	value := ""
	for _, e := range []Entry{{Device: one.Device, Reason: "old"}, {Device: "fpga/0000:05:00.0"}, one} {
		var err error
		if value, err = Add(value, e); err != nil {
			t.Fatal(err)
		}
	}
	got, err := Parse(value)
	if diff := cmp.Diff([]Entry{{Device: "fpga/0000:05:00.0"}, one}, got); diff != "" || err != nil {
		t.Error(diff, err)
	}
	if one.String() != "cordoned by alice: fan" || (Entry{}).String() != "cordoned" {
		t.Errorf("%q, %q", one, Entry{})
	}
	if _, err := Remove(value, "nvidia/GPU-2"); !errors.Is(err, ErrNotCordoned) {
		t.Error(err)
	}
	value, err = Remove(value, "fpga/0000:05:00.0")
	if err != nil || strings.Contains(value, "fpga") {
		t.Error(value, err)
	}
	if value, err = Remove(value, one.Device); err != nil || value != "" {
		t.Error(value, err)
	}
}

// Verifies what is refused, and that texts for people are bounded and printable.
func TestRefused(t *testing.T) {
	for value, want := range map[string]string{
		"nvidia/GPU-1":                                       "must be a JSON list",
		`{"device": "nvidia/GPU-1"}`:                         "must be a JSON list",
		`[{"device": "GPU-1"}]`:                              "must be BACKEND/ID",
		`[{"device": "a/` + strings.Repeat("x", 300) + `"}]`: "of at most 256 bytes",
		"[" + strings.Repeat(`{"device": "a/b"},`, 600) + `{"device": "a/b"}]`: "601 entries",
	} {
		if _, err := Parse(value); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40s: %v, want %q", value, err, want)
		}
		if changed, err := Add(value, Entry{Device: "a/b"}); err == nil {
			t.Errorf("%.40s became %.40s", value, changed)
		}
	}
	if _, err := Add("", Entry{Device: "a"}); err == nil {
		t.Error("a device without a backend is added")
	}
	entries, err := Parse(`[{"device": "a/b", "by": "\u001b[2J", "reason": "` + strings.Repeat("x", 1000) + `"}]`)
	if err != nil || strings.Contains(entries[0].By, "\x1b") || len(entries[0].Reason) > maxText+len("...") {
		t.Errorf("%v, %q", err, entries)
	}
}

package sdk

import (
	"encoding/json"
	"testing"
	"time"
)

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

// Durations are written as in Go; anything else is an error.
func TestDuration(t *testing.T) {
	var s struct {
		Rescan Duration `json:"rescan"`
	}
	if err := json.Unmarshal([]byte(`{"rescan": "1m30s"}`), &s); err != nil || time.Duration(s.Rescan) != 90*time.Second {
		t.Errorf("1m30s is %v, %v", time.Duration(s.Rescan), err)
	}
	for _, bad := range []string{`"fast"`, `"90"`, `90`} {
		if err := json.Unmarshal([]byte(`{"rescan": `+bad+`}`), &s); err == nil {
			t.Errorf("%s is %v", bad, s)
		}
	}
	var errs FieldErrors
	errs.Between("rescan", s.Rescan, time.Second, time.Minute)
	if got := errs.Error(); errs.Between("poll", s.Rescan, time.Minute, time.Hour) != 90*time.Second || errs.Error() != got || got != "rescan: 1m30s must be between 1s and 1m0s" {
		t.Errorf("%v", errs)
	}
}

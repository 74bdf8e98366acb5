package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Verifies that the steps of a run that failed can be gone through again by what is
// printed: on the command line as long as they fit there, and always by the file.
func TestAgain(t *testing.T) {
	for n, pasted := range map[int]bool{300: true, 20000: false} {
		file := filepath.Join(t.TempDir(), "failed")
		steps := draw(7, n)
		var out strings.Builder
		again(&out, "chaos", "steps", file, steps)
		if strings.Contains(out.String(), "REPLAY='") != pasted || !strings.Contains(out.String(), "make chaos REPLAY=@"+file+"\n") {
			t.Errorf("%d steps: %.200s", n, out.String())
		}
		o, err := parseOptions([]string{"-replay", "@" + file}, io.Discard)
		if err != nil || !slices.Equal(o.given, steps) {
			t.Errorf("%d steps are read back as %d, %v", n, len(o.given), err)
		}
	}
}

// Verifies that steps that are given from a file which is none, or has none, are refused
// with the reason.
func TestReplayOfNothing(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "empty")
	if err := os.WriteFile(empty, []byte("\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for replay, want := range map[string]string{"@" + empty: "no steps", "@" + empty + "-not": "read the steps", "fault": "action/number"} {
		var out strings.Builder
		if _, err := parseOptions([]string{"-replay", replay}, &out); err == nil || !strings.Contains(out.String(), want) {
			t.Errorf("%s: %v, told as %q", replay, err, &out)
		}
	}
}

// Verifies that a long run names the actions that were never done, and has failed of them
// where nothing may be left out.
func TestComplete(t *testing.T) {
	counts := map[string]int{}
	for _, a := range actions() {
		counts[a.name] = 1
	}
	delete(counts, "reboot")
	delete(counts, "fault")
	for _, c := range []struct {
		done          int
		drawn, strict bool
		code          int
		told          bool
	}{
		{manySteps, true, true, 1, true}, {manySteps, true, false, 0, true}, {manySteps - 1, true, true, 0, false}, {manySteps, false, true, 0, false},
	} {
		var out strings.Builder
		if code := complete(&out, result{done: c.done, counts: counts}, c.drawn, c.strict); code != c.code {
			t.Errorf("%+v: exit status %d", c, code)
		}
		if told := strings.Contains(out.String(), fmt.Sprintf("never done in %d steps: fault, reboot\n", c.done)); told != c.told {
			t.Errorf("%+v: %q", c, &out)
		}
	}
	var out strings.Builder
	counts["reboot"], counts["fault"] = 1, 1
	if code := complete(&out, result{done: manySteps, counts: counts}, true, true); code != 0 || out.Len() > 0 {
		t.Errorf("with all of them: exit status %d, %q", code, &out)
	}
}

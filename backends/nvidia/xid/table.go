package xid

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"

	"go.yaml.in/yaml/v3"
)

//go:embed table.yaml
var builtin []byte

// Verdict is the effect of an XID on a GPU. A later one is graver.
type Verdict string

// The verdicts.
const (
	// Ignore: no fault, nothing to do.
	Ignore Verdict = "ignore"
	// Application: the program that used the GPU failed, the GPU is healthy.
	Application Verdict = "application"
	// Reset: a fault that a reset of the GPU clears.
	Reset Verdict = "reset"
	// Reboot: a fault that a reboot of the node clears.
	Reboot Verdict = "reboot"
	// Replace: a fault that requires work on the hardware.
	Replace Verdict = "replace"
)

var verdicts = []Verdict{Ignore, Application, Reset, Reboot, Replace}

// UnmarshalText implements [encoding.TextUnmarshaler].
func (v *Verdict) UnmarshalText(text []byte) error {
	if !slices.Contains(verdicts, Verdict(text)) {
		return fmt.Errorf("%q is no verdict: ignore, application, reset, reboot or replace", text)
	}
	*v = Verdict(text)
	return nil
}

// Fault reports whether the GPU must not be allocated.
func (v Verdict) Fault() bool { return v == Reset || v == Reboot || v == Replace }

// Row is the table's entry for one XID.
type Row struct {
	XID     uint64
	Verdict Verdict
	// Means is what happened, as the end of a message; empty if unknown.
	Means string
	// WholeGPU: the error affects the whole GPU even if NVML names the MIG device in which
	// it was found.
	WholeGPU bool
	// Source is where the verdict is from: see table.yaml; "settings", [EnvDisable] or
	// [EnvEnable] for one that was overruled, "unknown" for a code that is in no
	// row.
	Source string
}

// maxXID bounds codes: all existing ones are below 200.
const maxXID = 65535

// rows are the built-in ones.
var rows = sync.OnceValues(func() (map[uint64]Row, error) {
	m, err := parseTable(builtin)
	if err != nil {
		return nil, fmt.Errorf("built-in XID table: %w", err)
	}
	return m, nil
})

// parseTable reads a table in the form of table.yaml.
func parseTable(data []byte) (map[uint64]Row, error) {
	var lines []struct {
		XID     string  `yaml:"xid"`
		Verdict Verdict `yaml:"verdict"`
		Source  string  `yaml:"source"`
		Means   string  `yaml:"means"`
		Reach   string  `yaml:"reach"`
	}
	dec := yaml.NewDecoder(bytes.NewReader(data))
	dec.KnownFields(true)
	if err := dec.Decode(&lines); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	out := map[uint64]Row{}
	for _, l := range lines {
		first, last, err := parseRange(l.XID)
		if err != nil {
			return nil, err
		}
		if l.Verdict == "" || l.Source == "" || l.Means == "" {
			return nil, fmt.Errorf("XID %s lacks a verdict, a source or a meaning", l.XID)
		}
		if l.Reach != "" && l.Reach != "gpu" {
			return nil, fmt.Errorf("XID %s: the reach is %q; it can be gpu, or left out", l.XID, l.Reach)
		}
		for code := first; code <= last; code++ {
			if _, twice := out[code]; twice {
				return nil, fmt.Errorf("XID %d has two rows", code)
			}
			out[code] = Row{XID: code, Verdict: l.Verdict, Means: l.Means, WholeGPU: l.Reach == "gpu", Source: l.Source}
		}
	}
	return out, nil
}

// parseRange reads "79" or "39-41".
func parseRange(text string) (first, last uint64, err error) {
	from, to, isRange := strings.Cut(text, "-")
	if first, err = parseXID(from); err != nil || !isRange {
		return first, first, err
	}
	if last, err = parseXID(to); err != nil {
		return 0, 0, err
	}
	if last <= first {
		return 0, 0, fmt.Errorf("%q is no range of XIDs: the first must be the lower", text)
	}
	return first, last, nil
}

// parseXID reads a code: digits alone, no sign, no leading zero.
func parseXID(text string) (uint64, error) {
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil || n == 0 || n > maxXID || text != strconv.FormatUint(n, 10) {
		return 0, fmt.Errorf("%q is no XID: give a number from 1 to %d, such as 79", text, maxXID)
	}
	return n, nil
}

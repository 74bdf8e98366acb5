package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
)

// result is what came of the tests with one release. A test with tests of its own
// counts by those, unless it fails by itself.
type result struct {
	release string
	passed  int
	skipped map[string]string // the reason by name
	failed  []string
	output  map[string]string
}

// event is what go test -json says (cmd/test2json).
type event struct {
	Action, Package, Test, Output string
}

// skipReason finds the sentence of a t.Skip in the output of a test.
var skipReason = regexp.MustCompile(`(?m)^\s+\S+\.go:\d+: (.*)$`)

// read takes in what go test -json writes.
func read(release string, in io.Reader) (*result, error) {
	r := &result{release: release, skipped: map[string]string{}, output: map[string]string{}}
	outcome, parents := map[string]string{}, map[string]bool{}
	lines := json.NewDecoder(in)
	for {
		var e event
		if err := lines.Decode(&e); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, fmt.Errorf("read the tests' output: %w", err)
		}
		if e.Test == "" {
			if e.Action == "output" && strings.HasPrefix(e.Output, "FAIL") {
				r.output[e.Package] += e.Output
			}
			continue
		}
		name := path.Base(e.Package) + "." + e.Test
		switch e.Action {
		case "run":
			if i := strings.LastIndexByte(name, '/'); i >= 0 {
				parents[name[:i]] = true
			}
		case "output":
			r.output[name] += e.Output
		case "pass", "skip", "fail":
			outcome[name] = e.Action
		}
	}
	for name, action := range outcome {
		switch {
		case action == "skip":
			reason := "no reason is given"
			if found := skipReason.FindStringSubmatch(r.output[name]); found != nil {
				reason = found[1]
			}
			r.skipped[name] = reason
		case action == "fail" && !failedWithin(outcome, name):
			r.failed = append(r.failed, name)
		case action == "pass" && !parents[name]:
			r.passed++
		}
	}
	slices.Sort(r.failed)
	return r, nil
}

// failedWithin reports whether it was a test of this one that failed.
func failedWithin(outcome map[string]string, name string) bool {
	for other, action := range outcome {
		if action == "fail" && strings.HasPrefix(other, name+"/") {
			return true
		}
	}
	return false
}

const (
	begin = "<!-- matrix: begin -->\n"
	end   = "<!-- matrix: end -->"
	head  = "| kubelet | passed | skipped | failed |\n| --- | --- | --- | --- |\n"
)

// row is the release's line of the table, and skips the one below it.
func (r *result) row() string {
	failed := "0"
	if len(r.failed) > 0 {
		failed = fmt.Sprintf("%d: %s", len(r.failed), strings.Join(r.failed, ", "))
	}
	return fmt.Sprintf("| %s | %d | %d | %s |", r.release, r.passed, len(r.skipped), failed)
}

// skips names what was skipped and why; "" if nothing was.
func (r *result) skips() string {
	byReason := map[string][]string{}
	for name, reason := range r.skipped {
		byReason[reason] = append(byReason[reason], name)
	}
	var parts []string
	for reason, names := range byReason {
		slices.Sort(names)
		parts = append(parts, fmt.Sprintf("%s: %s", reason, strings.Join(names, ", ")))
	}
	slices.Sort(parts)
	if len(parts) == 0 {
		return ""
	}
	return fmt.Sprintf("- %s skips: %s.", r.release, strings.Join(parts, "; "))
}

// write puts the release's lines into the file, beside those of others.
func (r *result) write(file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	from, to := bytes.Index(text, []byte(begin)), bytes.Index(text, []byte(end))
	if from < 0 || to < from {
		return fmt.Errorf("%s has no place for the table, between %q and %q", file, begin, end)
	}
	from += len(begin)
	var rows, skips []string
	for line := range strings.Lines(string(text[from:to])) {
		line = strings.TrimSuffix(line, "\n")
		switch {
		case strings.HasPrefix(line, "| "+r.release+" "), strings.HasPrefix(line, "- "+r.release+" "):
		case strings.HasPrefix(line, "| v"):
			rows = append(rows, line)
		case strings.HasPrefix(line, "- v"):
			skips = append(skips, line)
		}
	}
	rows = append(rows, r.row())
	if line := r.skips(); line != "" {
		skips = append(skips, line)
	}
	// 1.9 is not among the releases: their order is that of text.
	slices.Sort(rows)
	slices.Sort(skips)
	table := head + strings.Join(rows, "\n") + "\n"
	if len(skips) > 0 {
		table += "\n" + strings.Join(skips, "\n") + "\n"
	}
	return os.WriteFile(file, slices.Concat(text[:from], []byte(table), text[to:]), 0o644)
}

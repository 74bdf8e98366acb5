package sandbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
)

// Measure is one restriction of a process.
type Measure struct {
	// Name is one of this package's constants, such as [Files].
	Name string `json:"name"`
	// InForce is whether the kernel has it in force, as far as that can be measured.
	InForce bool `json:"inForce"`
	// Detail describes what exactly is in force, or is the reason why it is not.
	Detail string `json:"detail,omitempty"`
}

// Report describes the sandbox of a process that was started.
type Report struct {
	Measures []Measure `json:"measures,omitempty"`
	// Unmatched are patterns of the needs that match no file yet.
	Unmatched []string `json:"unmatched,omitempty"`
}

// Summary is what is in force, in a few words: "full", "all but user, mounts", "5 of 12", or "" if nothing is
// known.
func (r Report) Summary() string {
	missing := r.Missing()
	switch {
	case len(r.Measures) == 0:
		return ""
	case len(missing) == 0:
		return "full"
	case len(missing) > 3:
		return fmt.Sprintf("%d of %d", len(r.Measures)-len(missing), len(r.Measures))
	}
	list := make([]string, len(missing))
	for i, m := range missing {
		list[i] = m.Name
	}
	return "all but " + strings.Join(list, ", ")
}

// Missing returns the measures that are not in force.
func (r Report) Missing() []Measure {
	var missing []Measure
	for _, m := range r.Measures {
		if !m.InForce {
			missing = append(missing, m)
		}
	}
	return missing
}

// failure is why the program does not run. The error is for the operator.
type failure struct {
	Text  string        `json:"text"`
	Errno syscall.Errno `json:"errno,omitempty"`
	// Exec: the program itself could not be executed.
	Exec bool `json:"exec,omitempty"`
}

// Message is a message on the start of a program: from its shim, and for one in another container also from the launcher
// there.
type Message struct {
	// Report comes when the program is about to run, or runs in the other container.
	Report *Report `json:"report,omitempty"`
	// Had comes with it: what [Start.Watch] compares with.
	Had     existing `json:"had,omitempty"`
	Failure *failure `json:"failure,omitempty"`
	// Appeared are paths of files that appeared and that only another process can open, as a text. Unwatched is why the
	// kernel reports no such files, which are looked for at an interval then. Both are of [Start.Watch].
	Appeared  string `json:"appeared,omitempty"`
	Unwatched string `json:"unwatched,omitempty"`
}

// maxReport bounds what is read from a shim, in bytes.
const maxReport = 4 << 20

// read returns the shim's messages as one: when the program runs or the shim has ended, or, if first, after the report.
func read(from *json.Decoder, first bool) (all Message, _ error) {
	all.Report = &Report{}
	for {
		var m Message
		if err := from.Decode(&m); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return all, fmt.Errorf("the sandbox: read its report: %w", err)
		}
		if f := m.Failure; f != nil {
			err := errors.New(f.Text)
			if f.Errno != 0 {
				err = f.Errno
			}
			if f.Exec {
				return all, err
			}
			if f.Errno != 0 {
				err = fmt.Errorf("%s: %w", f.Text, f.Errno)
			}
			return all, fmt.Errorf("the sandbox: %w", err)
		}
		if m.Report != nil {
			if all = m; first {
				return all, nil
			}
		}
	}
}

// write sends a message to the process that started the shim.
func write(to *os.File, m Message) error {
	text, err := json.Marshal(m)
	if err != nil {
		return err
	}
	_, err = to.Write(text)
	return err
}

// names returns the names and details of measures as one text.
func names(all []Measure) string {
	list := make([]string, len(all))
	for i, m := range all {
		list[i] = fmt.Sprintf("%s (%s)", m.Name, m.Detail)
	}
	return strings.Join(list, ", ")
}

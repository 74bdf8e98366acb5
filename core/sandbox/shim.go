package sandbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// init turns a process that Prepare has started into the shim. No main function calls it: every program that
// starts backends is its own shim, tests too, and to initialise the other packages first, such as those
// of Kubernetes, would double the time of a start. Go initialises packages by their names, each after what it imports
// (https://go.dev/ref/spec#Program_initialization): so this package imports no net, after which most others would come.
func init() {
	if len(os.Args) == 1 && os.Args[0] == shimName {
		Replace((&shim{}).run)
	}
}

// exitStatus is the exit status if the program cannot be started.
const exitStatus = 126

// Replace replaces this process, which [Sandbox.Prepare] has started, by its program. run is called on the main thread:
// only that thread's rights matter, since execve(2) ends the others. It has the plan, which it closes, and the pipe for
// messages to the agent, and returns why the program does not run, as an [ExecError] if that is all that failed.
func Replace(run func(plan, messages *os.File) error) {
	out := os.NewFile(reportFD, "report")
	err := run(os.NewFile(planFD, "plan"), out)
	f := &failure{Text: err.Error()}
	_ = errors.As(err, &f.Errno)
	f.Exec = errors.As(err, new(ExecError))
	if err := write(out, Message{Failure: f}); err != nil {
		fmt.Fprintln(os.Stderr, "accelmux: start a backend in its sandbox:", f.Text)
	}
	syscall.Exit(exitStatus)
}

// ExecError is that of execve(2), or that of a launcher.
type ExecError struct{ Err error }

func (e ExecError) Error() string { return e.Err.Error() }
func (e ExecError) Unwrap() error { return e.Err }

// shim is the process between fork and exec.
type shim struct {
	plan
	report Report
	out    *os.File
	status *os.File // /proc/thread-self/status
	// found is what the patterns of the needs stand for.
	found map[string]found
	// granted are the capabilities that the program gets.
	granted           set
	capsErr, callsErr error
	callsGiven        string
	networkErr        error // why it has no network namespace of its own
}

// ofContainer is the detail of measures that the program's own container provides.
const ofContainer = "that of its own container"

// measured adds a measure to the report. err is why it is not in force; nil if it is.
func (s *shim) measured(name, detail string, err error) {
	m := Measure{Name: name, InForce: err == nil, Detail: detail}
	if err != nil {
		m.Detail = err.Error()
	}
	s.report.Measures = append(s.report.Measures, m)
}

// run applies the plan and executes the program. It returns only an error.
func (s *shim) run(in, out *os.File) error {
	s.out = out
	if err := json.NewDecoder(in).Decode(&s.plan); err != nil {
		return fmt.Errorf("read the plan: %w", err)
	}
	_ = in.Close() // read only
	var err error
	if s.status, err = os.Open("/proc/thread-self/status"); err != nil {
		return fmt.Errorf("read the process's status: %w", err)
	}
	if err := s.descriptors(); err != nil {
		return err
	}
	s.measured(Descriptors, "", nil)
	s.cgroup()
	s.limits()
	s.found = s.Needs.expand()
	had := s.Needs.appearing(s.Paths).existing(s.found)
	s.mounts()
	s.network()
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("refuse new privileges: %w", err)
	}
	s.files()
	s.bound()
	s.user()
	s.capabilities()
	// Only now: a change of credentials clears it (PR_SET_PDEATHSIG(2const)).
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0); err != nil {
		return fmt.Errorf("end with the agent: %w", err)
	}
	if os.Getppid() != s.Parent {
		return errors.New("the agent has ended")
	}
	s.calls()
	if err := s.measure(); err != nil {
		return err
	}
	if missing := s.report.Missing(); s.Required && len(missing) > 0 {
		return fmt.Errorf("sandbox.mode: required, and not in force are: %s; give the agent what they need, or set the mode auto", names(missing))
	}
	if err := write(s.out, Message{Report: &s.report, Had: had}); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	return ExecError{syscall.Exec(s.Program, s.Args, os.Environ())}
}

// descriptors has all descriptors closed when the program starts, except the standard ones. The file of a pinned program
// becomes descriptor 3, and stays open.
func (s *shim) descriptors() error {
	if s.Pinned {
		if err := unix.Dup3(programFD, planFD, unix.O_CLOEXEC); err != nil {
			return fmt.Errorf("pass the pinned program on: %w", err)
		}
	}
	open, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return fmt.Errorf("list the open descriptors: %w", err)
	}
	for _, entry := range open {
		if fd, err := strconv.Atoi(entry.Name()); err == nil && fd > 2 && (fd != planFD || !s.Pinned) {
			unix.CloseOnExec(fd)
		}
	}
	if s.Pinned {
		if _, err := unix.FcntlInt(planFD, unix.F_SETFD, 0); err != nil {
			return fmt.Errorf("pass the pinned program on: %w", err)
		}
	}
	return nil
}

// statusOf reads the thread's status, and returns a function for its fields, such as "NoNewPrivs".
func (s *shim) statusOf() (func(field string) string, error) {
	if _, err := s.status.Seek(0, 0); err != nil {
		return nil, err
	}
	text, err := io.ReadAll(s.status)
	if err != nil {
		return nil, fmt.Errorf("read the process's status: %w", err)
	}
	return func(field string) string {
		for line := range strings.SplitSeq(string(text), "\n") {
			if value, ok := strings.CutPrefix(line, field+":"); ok {
				return strings.TrimSpace(value)
			}
		}
		return ""
	}, nil
}

package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/accelmux/accelmux/core/suggestion"
)

const (
	// commandPatience bounds one command: a call of Prepare or Release may take 25 s, and may
	// wait for another one.
	commandPatience = time.Minute
	// readyPatience bounds the wait for the agent at the start: a backend may take 10 s for
	// the handshake, and 10 s for its first inventory.
	readyPatience = 30 * time.Second
	// demoContainer is the name of each pod's container.
	demoContainer = "main"
)

// session is a demo that executes commands: the user acts as kubelet.
type session struct {
	*demo
	config string
	// newest is the number in the name of the newest pod.
	newest int

	mu sync.Mutex
	// pods are the pods that hold devices, by name.
	pods map[string]*corev1.Pod
	// releases are the results of the newest release of each device, by <backend>/<device>.
	releases map[string]error
}

func newSession(d *demo, config string) *session {
	return &session{demo: d, config: config, pods: map[string]*corev1.Pod{}, releases: map[string]error{}}
}

// command is one of the session's commands.
type command struct {
	name, arguments, help string
	// least and most bound the number of arguments.
	least, most int
	run         func(ctx context.Context, args []string) error
}

// maxArguments bounds the arguments of alloc: a resource, a count, and the 32 parameters that
// a resource may have.
const maxArguments = 34

func (s *session) commands() []command {
	return []command{
		{"devices", "", "list resources and devices as kubelet sees them, and the pods that hold them", 0, 0, s.devices},
		{"alloc", "RESOURCE N [PARAMETER=VALUE...]", "start a pod with N devices, with these parameters for Prepare", 2, maxArguments, s.alloc},
		{"start", "POD", "start the pod's container again", 1, 1, s.start},
		{"free", "POD", "end the pod and release its devices", 1, 1, s.free},
		{"fail", "[DEVICE [CODE]]", "make a mock device fail", 0, 2, s.fail},
		{"heal", "[DEVICE]", "let a mock device recover, or all of them", 0, 1, s.heal},
		{"restart", "kubelet", "restart kubelet", 1, 1, s.restart},
		{"kill", "BACKEND", "kill a backend's process with SIGKILL", 1, 1, s.killNamed},
		{"status", "", "print backends, resources and problems, as `accelmux status` does", 0, 0, s.status},
		{"help", "", "print this list", 0, 0, s.help},
		{"quit", "", "end the demo, as the end of the input does", 0, 0, nil},
	}
}

// freeAll ends the remaining pods, so that backends undo what they prepared for them.
func (s *session) freeAll(ctx context.Context) {
	for _, name := range s.kubelet.State().Pods {
		if err := s.execute(ctx, []string{"free", name}); err != nil && ctx.Err() == nil {
			s.screen.say("error: %v", err)
		}
	}
}

// run starts kubelet and executes commands until the input or ctx ends. It shows a prompt only
// on a terminal. If the input is not a terminal and a command fails, run returns an error at
// the end.
func (s *session) run(ctx context.Context, in io.Reader) error {
	if err := s.begin(ctx); err != nil {
		return err
	}
	terminal := isTerminal(in)
	input := readLines(ctx, in)
	count, failed := 0, 0
	for {
		line, more := s.next(ctx, input.lines, terminal)
		fields := strings.Fields(line)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case !more && input.err != nil:
			return fmt.Errorf("read commands: %w", input.err)
		}
		if !more || len(fields) > 0 && fields[0] == "quit" {
			break
		}
		if len(fields) == 0 || strings.HasPrefix(fields[0], "#") {
			continue
		}
		if !terminal {
			s.screen.print(prompt + line)
		}
		count++
		if err := s.execute(ctx, fields); err != nil && ctx.Err() == nil {
			failed++
			s.screen.say("error: %v", err)
		}
	}
	s.freeAll(ctx)
	if failed > 0 && !terminal {
		return fmt.Errorf("%d of %d commands failed", failed, count)
	}
	return nil
}

// begin starts kubelet and waits until the agent serves its resources, at most readyPatience.
func (s *session) begin(ctx context.Context) error {
	if err := s.kubelet.Start(); err != nil {
		return err
	}
	s.screen.say("Ask the agent:  %s devices --run-dir %s", os.Args[0], filepath.Join(s.dir, "run"))
	s.screen.say("waiting up to %s until the agent is ready", readyPatience)
	limited, cancel := context.WithTimeout(ctx, readyPatience)
	defer cancel()
	err := await(limited, func() (bool, error) {
		// In this order: a resource may be registered after kubelet was asked, and have no list yet.
		if _, ready := s.agent.Report().Readiness(); !ready {
			return false, nil
		}
		for _, r := range s.kubelet.State().Resources {
			if r.Updates == 0 {
				return false, nil
			}
		}
		return true, nil
	})
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	text, _ := s.agent.Report().Readiness()
	s.screen.say("%s", text)
	if err != nil {
		s.screen.say("`status` shows more, and with --verbose the demo shows the agent's log")
	}
	return nil
}

// input delivers a reader's lines.
type input struct {
	lines chan string
	// err is the read error, if any; valid once lines is closed.
	err error
}

// readLines reads until the input or ctx ends.
func readLines(ctx context.Context, in io.Reader) *input {
	i := &input{lines: make(chan string)}
	go func() {
		defer close(i.lines)
		scanner := bufio.NewScanner(in)
		for scanner.Scan() {
			select {
			case i.lines <- scanner.Text():
			case <-ctx.Done():
				return
			}
		}
		i.err = scanner.Err()
	}()
	return i
}

// next returns the next line; more is false when the input or ctx has ended.
func (s *session) next(ctx context.Context, lines <-chan string, terminal bool) (line string, more bool) {
	if terminal {
		s.screen.ask(true)
		defer func() {
			if s.screen.ask(false); !more {
				s.screen.print("") // end the prompt's line
			}
		}()
	}
	select {
	case line, more = <-lines:
	case <-ctx.Done():
	}
	return line, more
}

// execute runs one command.
func (s *session) execute(ctx context.Context, fields []string) error {
	all := s.commands()
	i := slices.IndexFunc(all, func(c command) bool { return c.name == fields[0] })
	if i < 0 {
		names := make([]string, len(all))
		for i, c := range all {
			names[i] = c.name
		}
		return fmt.Errorf("no command %q%s", fields[0], suggestion.OrAll(fields[0], "the commands are", names))
	}
	c, args := all[i], fields[1:]
	if len(args) < c.least || len(args) > c.most {
		return fmt.Errorf("usage: `%s`: %s", strings.TrimSpace(c.name+" "+c.arguments), c.help)
	}
	ctx, cancel := context.WithTimeout(ctx, commandPatience)
	defer cancel()
	return c.run(ctx, args)
}

func (s *session) help(context.Context, []string) error {
	s.screen.table(func(w *tabwriter.Writer) {
		for _, c := range s.commands() {
			row(w, strings.TrimSpace(c.name+" "+c.arguments), c.help)
		}
	})
	return nil
}

func (s *session) status(context.Context, []string) error {
	s.screen.table(func(w *tabwriter.Writer) { statusTable(w, s.agent.Report()) })
	return nil
}

package profile

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/accelmux/accelmux/core/config"
	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/supervisor"
)

// Verifies that a restart during a switch which would stop a backend for one that does not run goes on with what was in
// force, and that other changes of the file are in force at once; what backends accepted is known after it, for the program
// and the plan that they are of alone; and since when a file is refused.
func TestRestartDuringASwitch(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "node.yaml")
	text := func(backends ...string) string {
		all := ""
		for _, b := range backends {
			all += "{name: " + b + "}, "
		}
		return "apiVersion: " + config.APIVersion + "\nkind: " + config.Kind + "\nprofiles:\n  - name: p\n    backends: [" + all + "]\n    resources: [{name: example.com/gpu}]\n"
	}
	// restart is a restart of the agent with another file, and returns the backends of the plan in force and of all.
	var current *Switch
	restart := func(file string) (names, all string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
			t.Fatal(err)
		}
		memory := memoryOf(dir, "node-1", path)
		loaded, err := Load(path, "", false, nil, memory)
		if err != nil {
			t.Fatal(err)
		}
		f := &fakeBackends{}
		current, err = NewSwitch(SwitchOptions{
			Path: path, Memory: memory, Wake: func() {}, Statuses: f.status, Apply: func(specs []supervisor.Spec, _ map[string]inventory.Policy) { f.specs = specs },
		}, loaded)
		if err != nil {
			t.Fatal(err)
		}
		current.Apply()
		for _, b := range current.InForce().Profile.Backends {
			names += b.Name
		}
		for _, s := range f.specs {
			all += " " + s.Name + string(s.Fallback)
		}
		return names, all
	}
	// end is the end of the agent, with these in force and accepted.
	end := func(statuses ...supervisor.Status) {
		t.Helper()
		current.Accepted(statuses)
		current.announce(current.current, false)
		storing(t, current.opts.Memory)()
	}
	expect := func(file, wantNames, wantAll string) {
		t.Helper()
		if names, all := restart(file); names != wantNames || all != wantAll {
			t.Errorf("%s: in force is %s, and%s run; want %s and%s", file, names, all, wantNames, wantAll)
		}
	}
	program := func(name, settings string) supervisor.Status {
		return supervisor.Status{Name: name, Command: config.CommandPrefix + name, Accepted: json.RawMessage(settings)}
	}
	expect(text("a"), "a", " a")
	end(program("a", `{"n": 1}`), program("z", `{}`))
	expect(text("b"), "a", ` a{"n": 1} b`) // as if it came now
	end(program("b", `{"m": 1}`))
	expect(text("b"), "a", ` a{"n": 1} b{"m": 1}`)
	end(program("a", `{"n": 2}`))
	expect(text("a", "b"), "ab", ` a{"n": 2} b{"m": 1}`) // nothing would be stopped
	end()
	expect(text("b"), "b", ` b{"m": 1}`) // nothing would be started
	end()
	expect(text("a", "b"), "ab", ` a b{"m": 1}`)
	end()
	expect(strings.Replace(text("b"), "name: b", "name: b, command: other", 1), "b", " b")
	if since := current.Status().RefusedSince; !since.IsZero() {
		t.Errorf("the file is refused since %s", since)
	}
	end()
	expect("{", "b", " b")
	first := current.Status().RefusedSince
	end()
	expect("{}", "b", " b")
	if again := current.Status().RefusedSince; first.IsZero() || !again.Equal(first) || !strings.Contains(current.Status().Problems[0], "refused since "+first.Format(time.RFC3339)+", ") {
		t.Errorf("the file is refused since %s, and after a restart since %s: %q", first, again, current.Status().Problems)
	}
	end()
	expect(text("b"), "b", ` b{"m": 1}`)
	end()
	if expect("{", "b", ` b{"m": 1}`); current.Status().RefusedSince.Equal(first) {
		t.Error("a file that was accepted meanwhile is refused since before that")
	}
}

// Verifies that a file whose settings a manifest refuses is refused as a whole, at the start and later, that what was in
// force stays, and that the file applies as soon as another manifest accepts it, also after a restart.
func TestRefusedSettings(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "node.yaml")
	write := func(settings string) {
		t.Helper()
		text := "apiVersion: " + config.APIVersion + "\nkind: " + config.Kind + "\nprofiles:\n  - name: p\n    backends: [{name: mock, settings: " + settings + "}]\n" +
			"    resources: [{name: example.com/gpu, selector: 'true'}]\n"
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var newer atomic.Bool
	check := func(file config.Event) error {
		if !newer.Load() && strings.Contains(string(file.Data), "wrong") {
			return errors.New("node.yaml:4:1: wrong is no setting")
		}
		return nil
	}
	memory := OpenMemory(MemoryOptions{Path: filepath.Join(dir, "profile"), Configuration: path, Log: slog.New(slog.DiscardHandler)})
	write("{wrong: 1}")
	if _, err := Load(path, "", false, check, memory); err == nil || !strings.Contains(err.Error(), "wrong is no setting") {
		t.Errorf("at the first start: %v", err)
	}
	write("{}")
	loaded, err := Load(path, "", false, check, memory)
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	manifests, woken := make(chan struct{}), make(chan struct{}, 8)
	options := SwitchOptions{
		Path: path, Check: check, Manifests: manifests, Memory: memory, Wake: func() { woken <- struct{}{} }, Log: slog.New(slog.NewTextHandler(&log, nil)),
		Apply: func([]supervisor.Spec, map[string]inventory.Policy) {},
	}
	s, err := NewSwitch(options, loaded)
	if err != nil {
		t.Fatal(err)
	}
	write("{wrong: 1}")
	s.load(config.Read(path))
	if got := s.Status(); s.next != nil || got.Profile != "p" || !strings.Contains(got.Refused, "wrong is no setting") {
		t.Errorf("a later file: %+v", got)
	}
	memory.SetInForce("p", loaded.source)
	again, err := Load(path, "", false, check, memory)
	if err != nil || string(again.source) != string(loaded.source) || again.refused == nil {
		t.Errorf("after a restart: %v, refused %v", err, again.refused)
	}
	restarted, err := NewSwitch(options, again)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Count(log.String(), "\n")
	for name, s := range map[string]*Switch{"a running agent": s, "after a restart": restarted} {
		newer.Store(false)
		if s.retry(); s.next != nil || s.Status().Refused == "" || strings.Count(log.String(), "\n") > lines {
			t.Errorf("%s, without a change: %+v, log\n%s", name, s.Status(), log.String())
		}
		newer.Store(true)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- s.Run(ctx, nil) }()
		manifests <- struct{}{}
		<-woken
		cancel()
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		if s.next == nil || !strings.Contains(string(s.next.Profile.Backends[0].Settings), "wrong") || s.Status().Refused != "" {
			t.Errorf("%s, with another manifest: %+v", name, s.Status())
		}
		lines = strings.Count(log.String(), "\n")
	}
}

package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode"

	"golang.org/x/sys/unix"

	"github.com/accelmux/accelmux/core/status/listing"
	"github.com/accelmux/accelmux/core/supervisor"
	"github.com/accelmux/accelmux/test/hostile"
	"github.com/accelmux/accelmux/test/patience"
)

const (
	// bad is the resource of the hostile backend.
	bad = "example.com/bad"
	// hostileNode is a hostile backend beside a sound one; DEED, HEARTBEAT and INTERVAL are the
	// test's, and the file DIR/on says when it is hostile.
	hostileNode = `
apiVersion: accelmux.io/v1alpha1
kind: NodeConfig
profiles:
  - name: default
    backends:
      - name: bad
        command: hostilebackend
        env: {HOSTILE_MISDEED: "DEED", HOSTILE_WHILE: "DIR/on"}
        allow: {declared: accept, process: {read: ["DIR/**"]}}
        heartbeat: HEARTBEAT
        recovery: {delay: 0s}
        telemetry: {interval: INTERVAL}
      - {name: mock, settings: {count: 2}}
    resources:
      - {name: example.com/gpu, backend: mock}
      - {name: example.com/bad, backend: bad}
`
	// swelling is how much more memory the agent may need while a backend is hostile, in
	// MB: several times what any needs, with the race detector. A flood that gets in takes
	// gigabytes.
	swelling = 1024
	// crowd is how many processes the agent may have at a time: two backends, and what is
	// on its way out while its successor comes.
	crowd = 4
	// abreast is how many misdeeds are tried at a time: each agent mostly waits.
	abreast = 8
	// The limits of what a hostile backend does not do, and the others must do: the handshake takes them up to 3 s with
	// all these agents on half a core, the other steps of a start half a second, and a call less.
	handshakeLimit, stepLimit, callLimit = patience.Long / 2, 10 * time.Second, 5 * time.Second
	// pulse is how often containers come and go meanwhile.
	pulse = 10 * time.Millisecond
)

// outcome is what becomes of a hostile backend.
type outcome struct {
	// says is in a sentence that status says of the backend: what is wrong.
	says []string
	// also are further such sentences, by what is in each.
	also [][]string
	// state is what the backend comes to; "" for running.
	state supervisor.State
	// listed is how many devices it has then, 0 for as many as before; unhealthy how many
	// of them are not healthy.
	listed, unhealthy int
	// begin is done when the misdeed is to begin.
	begin func(*program)
	// heartbeat is "" for one that the misdeed does not wait for.
	heartbeat string
	// interval is that of the telemetry, three of which may pass without a sample; "" for
	// one that no test waits for.
	interval string
	// limits are what the misdeed runs into.
	limits order
}

// outcomes are by misdeed.
var outcomes = map[string]outcome{
	"prints-first":      quarantined(again, order{}, `it printed "vendor library 7.1 initialized" instead of the handshake`, "nothing else may be printed"),
	"mute":              quarantined(again, order{Start: handshakeLimit, Failures: 1}, "it did not complete the handshake within 30s: is it a backend?"),
	"garbled-handshake": quarantined(again, order{}, "listens on unix /?[31m/../etc/passwd", "must listen on a unix socket in PLUGIN_UNIX_SOCKET_DIR"),
	"elsewhere":         quarantined(again, order{}, "listens on unix /run/containerd/containerd.sock", "must listen on a unix socket in PLUGIN_UNIX_SOCKET_DIR"),

	"hangs-in-configure": quarantined(again, order{Configure: stepLimit, Failures: 1}, "it did not answer Configure within 10s"),
	"hangs-in-watch":     quarantined(again, order{FirstInventory: stepLimit, Failures: 1}, "it sent no inventory within 10s"),
	"hangs-in-prepare": {
		begin: refusedStart("it did not answer within 5s, and the call was cancelled"), limits: order{Prepare: callLimit},
	},
	"hangs-in-release": {
		begin: hold, limits: order{Release: callLimit},
		says: []string{"its holder has ended, but its release failed and is tried again", "it did not answer within 5s, and the call was cancelled"},
	},
	"hangs-in-reset": {
		limits: order{Reset: callLimit}, unhealthy: 1,
		says: []string{"needs reset", "the last reset failed: backend bad: Reset: it did not answer within 5s"},
	},
	"hangs-in-sample": {begin: measure, interval: "1s", says: []string{"telemetry is not available, and is tried again: no sample was received for"}},

	"crashes-at-start":     quarantined(again, order{}, "it exited with status 7", "the driver's library has aborted"),
	"crashes-in-a-loop":    quarantined(nil, order{}, "it exited with status 7", "the driver's library has aborted"),
	"crashes-in-configure": quarantined(again, order{}, "it exited with status 7", "the driver's library has aborted"),
	"crashes-in-watch":     quarantined(again, order{}, "it exited with status 7", "the driver's library has aborted"),
	"crashes-in-prepare":   {begin: refusedStart("the backend stopped during the call: it exited with status 7")},
	"crashes-in-release":   quarantined(hold, order{}, "it exited with status 7", "the driver's library has aborted"),
	"crashes-in-reset":     {unhealthy: 1, says: []string{"needs reset", "the last reset failed", "it exited with status 7"}},
	"crashes-in-sample":    quarantined(measure, order{}, "it exited with status 7", "the driver's library has aborted"),

	"stuck-loop": {
		heartbeat: "3s", limits: order{Failures: 1}, state: supervisor.Quarantined,
		says: []string{"no heartbeat for 9s although its server answers: the loop that watches the hardware hangs"},
	},
	"stopped": {
		heartbeat: "3s", limits: order{Failures: 1}, state: supervisor.Quarantined,
		says: []string{"no heartbeat for 9s, and its server does not answer: it hangs or is stopped"},
	},
	"deaf": {
		heartbeat: "3s", limits: order{Failures: 1}, state: supervisor.Quarantined,
		says: []string{"no heartbeat for 9s although its server answers"},
	},
	"grandchild": quarantined(nil, order{}, "it exited with status 7", "gone, but for a child"),

	"many-devices":         quarantined(nil, order{}, "it takes more than 20 MiB of the core's memory"),
	"big-messages":         quarantined(nil, order{}, "received message larger than max"),
	"heavy-messages":       {says: []string{"zzzz"}}, // of its text; how fast they come depends on the machine
	"many-updates":         {says: []string{"it sends more updates than the limit of 20 a second and 40 MiB a second", "updates were delayed since 2", "configure it to report less often"}},
	"many-log-lines":       {says: []string{"it logs more than 50 lines a second", "lines were dropped since 2", "fix what it logs"}},
	"endless-log-line":     {says: []string{"it logs lines of more than 16 kB", "kB of them were cut off since 2", "configure it to log shorter lines"}},
	"endless-output":       {says: []string{"it writes to its standard output, which is not read after the handshake", "kB were discarded since 2", "configure it to log to its standard error"}},
	"frames-ping":          framesFlood("PING"),
	"frames-settings":      framesFlood("SETTINGS"),
	"frames-window-update": framesFlood("WINDOW_UPDATE"),
	"frames-rst-stream":    framesFlood("RST_STREAM"),
	"frames-data":          framesFlood("DATA"),
	"frames-headers":       framesFlood("HEADERS"),
	"frames-continuation":  framesFlood("CONTINUATION"),
	"frames-unknown":       framesFlood("of an unknown type"),
	"many-samples":         {begin: measure, says: []string{"telemetry is not available, and is tried again: it sends samples far more often than every"}},
	"many-metrics":         {begin: measure, says: []string{"it takes more than 20 MiB of the core's memory"}},

	"duplicate-ids": {says: []string{"device 3 of the report is left out: its ID is also that of device 1 of the report"}},
	"paths-outside": {says: []string{"is left out", `device node "/etc/shadow" is never given to a container`}},
	"numbers-of-others": {
		says: []string{"disk", "is left out", `device node "/dev/hostile" is a block device, which no pattern gives to containers`},
		also: [][]string{{"memory", "is left out", `has the number of "/dev/mem", which is never given`}, {"tty", "is left out", `has the number of "/dev/tty", which the configuration does not allow`}},
	},
	"unread-foreign":   {says: []string{"it names 10000 devices that it could not look at; more than 4096 count as all"}},
	"unread-listed":    {says: []string{`the device "../.." at "7" could not be looked at`}, also: [][]string{{"knows of none but the listed ones: the backend gives no reason"}}},
	"generation-again": quarantined(nil, order{}, "its generation 1 does not follow 1"),
	"garbled-devices":  quarantined(nil, order{}, "none of its 2 devices is valid"),
	"nan-metrics":      {begin: measure, says: []string{"NaN"}},
	"negative-weights": {
		listed: 3, // a bad capacity costs itself
		says:   []string{`negative: capacity "memory" is left out: it is -1; an amount is never negative`},
		also:   [][]string{{"hostile-0: 1 of its 1 links are dropped", "that to hostile-1 has the impossible count 0 or distance 4294967295"}},
	},
	"control-characters": {
		unhealthy: 1,
		says:      []string{"\"red\ufffd[31m\ufffdand\ufffdmore\": device 3 of the report is left out"},
		also: [][]string{
			{"hostile-0: unhealthy: hot: line break ?]0;title?"},
			{": a problem ?[2J of the screen's"},
		},
	},
	"invalid-utf8": {
		says: []string{"device 3 of the report is left out: the ID \"bad-\ufffd\" must be of A-Z"},
		also: [][]string{{"bad-path: device 4 of the report is left out", "/dev/bad-", "contains control characters or is not valid UTF-8"}},
	},
	"garbled-name":    mismatched("hostilebackend is M?ller 1.0.0"),
	"another-version": mismatched("hostilebackend is hostile 6.6.6"),
}

// quarantined is the outcome of what happens again and again.
func quarantined(begin func(*program), limits order, says ...string) outcome {
	return outcome{begin: begin, limits: limits, says: says, state: supervisor.Quarantined}
}

// framesFlood is the outcome of a flood of frames without data.
func framesFlood(kind string) outcome {
	return quarantined(nil, order{}, "it sent HTTP/2 frames without data faster than the limit of 1000 a second, most of them "+kind)
}

// mismatched is a backend whose program is not the one that its manifest is for.
func mismatched(says string) outcome {
	return outcome{begin: again, says: []string{says + ", but its manifest ", " is for hostile 1.0.0: install a program and a manifest of one version"}, state: supervisor.Unavailable}
}

// again has the backend started anew.
func again(p *program) {
	p.Helper()
	if err := unix.Kill(p.backend("bad").PID, unix.SIGKILL); err != nil && !errors.Is(err, unix.ESRCH) {
		p.Fatal(err)
	}
}

// refusedStart has a container start that needs the backend, and be refused.
func refusedStart(says string) func(*program) {
	return func(p *program) {
		p.Helper()
		p.allocate("refused", bad, 1)
		if _, err := p.kubelet.StartContainer(p.Context(), "refused", "main"); err == nil || !strings.Contains(err.Error(), says) {
			p.Errorf("the start of a container gives %v, want %q", err, says)
		}
		p.kubelet.Free("refused")
	}
}

// hold has a container hold one of the backend's units, and end.
func hold(p *program) {
	p.Helper()
	id := p.allocate("short", bad, 1)[0]
	p.eventually("the container is known", func() bool {
		devices, err := p.client.Devices(p.Context())
		return err == nil && slices.ContainsFunc(devices, func(d listing.Device) bool { return d.ID == id && len(d.Holders) > 0 })
	})
	p.kubelet.Free("short")
}

// measure asks for telemetry.
func measure(p *program) {
	p.Helper()
	if _, err := p.client.Telemetry(p.Context()); err != nil {
		p.Error(err)
	}
}

// Verifies, for every misdeed of package hostile, on an agent with real processes, that
// the operator is told which backend does what, that it is quarantined, or its bad devices left
// out, that the sound backend beside it keeps its units and they can be allocated all the time,
// that the agent's memory and processes stay bounded, and that the resource is back when the
// backend is sound again.
func TestHostileBackends(t *testing.T) {
	t.Parallel()
	known := map[string]bool{}
	lanes, run := make(chan struct{}, abreast), sync.WaitGroup{}
	for _, misdeed := range hostile.All() {
		known[misdeed.Name] = true
		want, ok := outcomes[misdeed.Name]
		if !ok {
			t.Errorf("it is not written what must become of a backend that %s (%s)", misdeed.What, misdeed.Name)
			continue
		}
		lanes <- struct{}{}
		run.Go(func() {
			defer func() { <-lanes }()
			t.Run(misdeed.Name, func(t *testing.T) { testHostile(t, misdeed, want) })
		})
	}
	run.Wait()
	for name := range outcomes {
		if !known[name] {
			t.Errorf("there is no misdeed %s", name)
		}
	}
}

func testHostile(t *testing.T, misdeed hostile.Misdeed, want outcome) {
	p := startHostile(t, misdeed.Name, want)
	mock, before := p.backend("mock"), p.peak()
	p.mark(gpu)
	peace := p.disturb()
	p.write("on", "")
	if want.begin != nil {
		want.begin(p)
	}
	p.wantOutcome(want)
	peace()
	if after := p.peak(); after-before > swelling {
		t.Errorf("the agent had %d MB before a backend %s, and then %d MB", before, misdeed.What, after)
	}

	// A sound backend in its place.
	if err := os.Remove(p.path("on")); err != nil {
		t.Fatal(err)
	}
	p.configure(want.config(""))
	p.wantCounts(bad, hostile.Devices, hostile.Devices)
	p.eventually("nothing is wrong any more", func() bool {
		r := p.report()
		return len(r.Backends) == 2 && len(r.Problems) == 0 && len(children(t, p.pid())) == 2
	})
	if now := p.backend("mock"); now.PID != mock.PID || now.Restarts != mock.Restarts {
		t.Errorf("the other backend was %+v and is %+v", mock, now)
	}
	p.wantNoDip(gpu, 2)
}

// config is the node's, with a misdeed or none.
func (o outcome) config(misdeed string) string {
	return strings.NewReplacer(`"DEED"`, `"`+misdeed+`"`, "HEARTBEAT", cmp.Or(o.heartbeat, "10s"), "INTERVAL", cmp.Or(o.interval, "20s")).Replace(hostileNode)
}

// startHostile starts a node whose backend is not hostile yet.
func startHostile(t *testing.T, misdeed string, want outcome) *program {
	t.Helper()
	n := newNode(t)
	n.startKubelet()
	n.configure(want.config(misdeed))
	if err := os.WriteFile(n.path("proc/devices"), []byte("Character devices:\n  1 mem\n  4 tty\n\nBlock devices:\n  8 sd\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	limits := want.limits
	limits.Programs = built.Dir(t)
	p := n.startProcess(limits)
	n.wantCounts(gpu, 2, 2)
	n.wantCounts(bad, hostile.Devices, hostile.Devices)
	return p
}

// wantOutcome waits until the backend has come to what it must.
func (p *program) wantOutcome(want outcome) {
	p.Helper()
	for _, says := range append([][]string{want.says}, want.also...) {
		p.eventually(fmt.Sprintf("status says of the backend: %q", says), func() bool {
			return len(says) == 0 || slices.ContainsFunc(p.problems(), func(line string) bool {
				return hasAll(line, says) && strings.HasPrefix(line, "bad ")
			})
		})
	}
	state := cmp.Or(want.state, supervisor.Running)
	p.eventually("the backend is "+string(state), func() bool { return p.backend("bad").State == string(state) })
	listed := cmp.Or(want.listed, hostile.Devices)
	p.wantCounts(bad, listed, listed-want.unhealthy)
	for _, line := range p.problems() {
		if strings.ContainsFunc(line, unicode.IsControl) {
			p.Errorf("status says %q", line)
		}
	}
}

// hasAll reports whether a line has all the parts.
func hasAll(line string, parts []string) bool {
	return !slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(line, part) })
}

// disturb has containers come and go on the sound backend's resource, and counts
// processes, until the function that it returns is called.
func (p *program) disturb() (end func()) {
	ctx, cancel := context.WithCancel(p.Context())
	done := make(chan struct{})
	rounds, most := 0, 0
	var failed error
	go func() {
		defer close(done)
		tick := time.NewTicker(pulse)
		defer tick.Stop()
		for failed == nil && ctx.Err() == nil {
			pod := fmt.Sprint("other-", rounds)
			within, cancel := context.WithTimeout(ctx, patience.Long)
			if _, err := p.kubelet.Allocate(within, pod, "main", gpu, 1); err != nil && ctx.Err() == nil {
				failed = err
			}
			cancel()
			p.kubelet.Free(pod)
			most = max(most, len(children(p.T, p.pid())))
			rounds++
			select {
			case <-tick.C:
			case <-ctx.Done():
			}
		}
	}()
	return func() {
		p.Helper()
		cancel()
		<-done
		if failed != nil {
			p.Errorf("allocation %d of the other backend's: %v", rounds, failed)
		}
		if most > crowd {
			p.Errorf("the agent had %d processes at a time", most)
		}
	}
}

package intruder

import (
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/accelmux/accelmux/backends/sdk"
)

// Attributes of an attempt's device.
const (
	// ResultAttribute is Succeeded or Refused.
	ResultAttribute = "result"
	Succeeded       = "succeeded"
	Refused         = "refused"
	// ErrorAttribute is the error with which it was refused.
	ErrorAttribute = "error"
)

const (
	// All is the [Settings].Attempt for all attempts.
	All = "all"
	// Exhaust is the [Settings].Attempt that uses memory until the process is killed.
	Exhaust = "exhaust"
	// Own is the ID of the only device that is no attempt.
	Own = "own"
)

// Settings are what to attempt, and the places on the node that an attacker would find.
type Settings struct {
	// Attempt is the name of one, All, Exhaust, or empty for none. It is made each time that the settings change.
	Attempt string `json:"attempt"`
	// Agent, Other and Node are process IDs: the agent, another backend, and a process of root's
	// that has nothing to do with the agent.
	Agent int `json:"agent"`
	Other int `json:"other"`
	Node  int `json:"node"`

	Kubelet      string `json:"kubelet"`      // kubelet's directory
	CDI          string `json:"cdi"`          // directory of CDI specs
	Spec         string `json:"spec"`         // a CDI spec of another backend
	State        string `json:"state"`        // the agent's state directory
	StateFile    string `json:"stateFile"`    // a file in it
	Run          string `json:"run"`          // the agent's run directory
	Config       string `json:"config"`       // the node configuration
	Programs     string `json:"programs"`     // the backends' programs
	OtherProgram string `json:"otherProgram"` // one that does not run
	Token        string `json:"token"`        // the token for the API server
	Volume       string `json:"volume"`       // a secret in a pod's volume

	OwnNode      string   `json:"ownNode"`      // a device node that its manifest has it open
	OtherNode    string   `json:"otherNode"`    // a device node of another backend's, mode 0666
	OtherSockets []string `json:"otherSockets"` // the sockets of another backend
	Runtime      []string `json:"runtime"`      // sockets of container runtimes
	Manager      string   `json:"manager"`      // systemd's socket
	Log          string   `json:"log"`          // the socket of the system's log, mode 0666
	Bus          string   `json:"bus"`          // D-Bus's socket, mode 0666
	Abstract     string   `json:"abstract"`     // an abstract unix socket of another process, without "@"
	Loopback     string   `json:"loopback"`     // a TCP address on which another process listens
	Outside      string   `json:"outside"`      // an address beyond the machine
	Segment      int      `json:"segment"`      // the ID of a SysV shared memory segment of root's, mode 0600
	Setuid       string   `json:"setuid"`       // a copy of this program, setuid root
}

// processes are those of the node.
func (s *Settings) processes() []int { return []int{s.Agent, s.Other, s.Node} }

// result of an attempt.
type result struct {
	Attempt
	err error
}

// backend is what the SDK serves.
type backend struct {
	mu      sync.Mutex
	out     *sdk.Reporter // nil before Watch
	results []result
}

// Main is the program; it does not return.
func Main() {
	if mode := os.Getenv(childEnv); mode != "" {
		syscall.Exit(child(mode))
	}
	syscall.Exit(sdk.Serve(&backend{}))
}

// Identity returns what intruderbackend/manifest.yaml has, which asks for what a backend for one device commonly needs.
func (b *backend) Identity() (name, version string) { return "intruder", "1.0.0" }

// Configure starts the attempts that the settings ask for.
func (b *backend) Configure(_ context.Context, settings json.RawMessage, _ sdk.HostPaths) error {
	var s Settings
	if err := json.Unmarshal(settings, &s); err != nil {
		return err
	}
	switch s.Attempt {
	case "":
	case Exhaust:
		go exhaust()
	default:
		go b.run(&s)
	}
	return nil
}

// run makes the attempts.
func (b *backend) run(s *Settings) {
	for _, a := range slices.Concat(Controls(), Attempts()) {
		if s.Attempt != All && s.Attempt != a.Name {
			continue
		}
		began := time.Now()
		next := result{a, a.try(s)}
		slog.Info("attempted", "attempt", a.Name, "error", next.err, "took", time.Since(began))
		b.mu.Lock()
		b.results = append(b.results, next)
		b.out.Scan()
		b.mu.Unlock()
	}
}

func (b *backend) Watch(ctx context.Context, out *sdk.Reporter) error {
	b.mu.Lock()
	b.out = out
	b.mu.Unlock()
	return sdk.Poll(ctx, out, func() time.Duration { return time.Minute }, b.list)
}

func (b *backend) list(context.Context) ([]*sdk.Device, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	devices := []*sdk.Device{device(Own)}
	for _, r := range b.results {
		d := device(r.Name)
		d.Attributes = map[string]*sdk.Attribute{ResultAttribute: sdk.String(Succeeded)}
		if r.err != nil {
			d.Attributes = map[string]*sdk.Attribute{ResultAttribute: sdk.String(Refused), ErrorAttribute: sdk.String(short(r.err))}
		}
		devices = append(devices, d)
	}
	return devices, nil
}

func device(id string) *sdk.Device {
	return &sdk.Device{Id: id, Class: "gpu", Health: sdk.Recovered(), Edits: sdk.Nodes("/dev/null")}
}

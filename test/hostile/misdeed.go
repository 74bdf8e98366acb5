package hostile

import (
	"context"
	_ "embed" // hostilebackend/manifest.yaml
	"os"
	"slices"
	"syscall"

	"google.golang.org/grpc"

	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

// Manifest is that of the program.
//
//go:embed hostilebackend/manifest.yaml
var Manifest string

const (
	// MisdeedEnv names the variable with the misdeed's name; empty: there is none.
	MisdeedEnv = "HOSTILE_MISDEED"
	// WhileEnv names the variable with the path of a file: the misdeed is done while
	// it exists, and not once that is over. Empty: always.
	WhileEnv = "HOSTILE_WHILE"
	// BegunEnv names the variable with the path of a file that is made when the misdeed
	// begins, for who has to know that it did, and that goes when a process ends it. Empty:
	// none is made.
	BegunEnv = "HOSTILE_BEGUN"
	// Devices is how many devices it has while it is sound, hostile-0 and so on.
	Devices = 2
)

// Group is a kind of misdeeds.
type Group string

// The groups.
const (
	Starts  Group = "start"
	Hangs   Group = "hang"
	Crashes Group = "crash"
	Stuck   Group = "stuck"
	Floods  Group = "flood"
	Lies    Group = "lie"
	// Breaches are small ones that an agent need not notice: each breaks one rule of
	// cmd/accelmux/conformance.
	Breaches Group = "breach"
)

// Misdeed is one way to misbehave. What it has no function for is done as a sound
// backend does it.
type Misdeed struct {
	Name  string
	Group Group
	// What completes "a backend …", such as "prints before the handshake".
	What string
	// Call is the call that it takes place in, such as "Prepare"; "" if in none.
	Call string
	// Rule is the ID of the rule of cmd/accelmux/conformance that a breach breaks.
	Rule string

	// start runs before the handshake.
	start func()
	// call runs at the beginning of Call, which may be Watch or Sample.
	call func(ctx context.Context)
	// reply changes what a call returns, but for Watch and Sample.
	reply func(request, answer any, err error) (any, error)
	// usesRefused: settings that it refuses are in force.
	usesRefused bool
	// serve is another server than go-plugin's.
	serve func(*backend, []grpc.ServerOption)
	// orphan: it stays when its parent is gone.
	orphan bool
	// running runs once, when the backend is sound and the misdeed begins.
	running func()
	// watch takes over from the loop that sends the inventory.
	watch func(b *backend, stream watchStream) error
	// lie changes what is sent.
	lie func(*backendv1.Inventory)
	// sample takes over from the telemetry.
	sample func(stream sampleStream) error
}

// loops reports whether it takes place in the loop that sends the inventory.
func (m *Misdeed) loops() bool {
	return m.running != nil || m.watch != nil || m.lie != nil
}

type (
	watchStream  = grpc.ServerStreamingServer[backendv1.WatchResponse]
	sampleStream = grpc.ServerStreamingServer[backendv1.SampleResponse]
)

// All are the misdeeds, group by group, without breaches.
func All() []Misdeed {
	return slices.Concat(starts(), hangs(), crashes(), stuck(), floods(), frameFloods(), lies())
}

// find is the misdeed of that name; nil if there is none.
func find(name string) *Misdeed {
	all := slices.Concat(All(), AllBreaches(), Stains())
	if i := slices.IndexFunc(all, func(m Misdeed) bool { return m.Name == name }); i >= 0 {
		return &all[i]
	}
	return nil
}

// on reports whether it is time for the misdeed.
func on() bool {
	path := os.Getenv(WhileEnv)
	if path == "" {
		return true
	}
	_, err := os.Stat(path)
	return err == nil
}

// begin notes that the misdeed begins now.
func begin() {
	path := os.Getenv(BegunEnv)
	if path == "" {
		return
	}
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		die(9, "note that the misdeed begins: "+err.Error())
	}
}

// end notes that the misdeed is over.
func end() {
	if path := os.Getenv(BegunEnv); path != "" {
		_ = os.Remove(path) // who waits for that says so
	}
}

// die ends the process at once, as a crash does.
func die(code int, words string) {
	_, _ = rawStderr.WriteString(words + "\n") // nothing to be done about it here
	syscall.Exit(code)
}

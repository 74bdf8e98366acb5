package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	cdi "tags.cncf.io/container-device-interface/pkg/cdi"
	specs "tags.cncf.io/container-device-interface/specs-go"

	"github.com/accelmux/accelmux/core/deviceplugin/kubelettest"
	"github.com/accelmux/accelmux/core/status"
	"github.com/accelmux/accelmux/core/supervisor"
)

// observation is what the invariants are about: the node at one moment, and what is
// true of it. It can be made by hand.
type observation struct {
	// Incidents are what was seen in passing, by the name of the invariant.
	Incidents map[string]string

	// KubeletUp says that the following is there: what kubelet has been told, by
	// resource and unit, and what it has to be told.
	KubeletUp      bool
	Listed, Wanted map[string]map[string]health
	// Duplicates counts registrations of a socket that kubelet was connected to.
	Duplicates int
	// Connections are those of kubelet to plugins, Sockets those in its directories.
	Connections int
	Sockets     []string
	// Known and Standing are the codes of the devices' faults: those that the agent
	// knows, and those that it must know, of the devices of backends that run.
	Known, Standing map[string][]string
	// Recovered are devices of those backends whose faults are all over.
	Recovered []string

	Holds []hold
	// Given are the CDI names that containers have, with what they are now.
	Given []given

	Agents []agentSeen
	// Backends is how many are configured, Down how many of those cannot run.
	Backends, Down int
	// Waiting are those that can run and do not, in the active agent's words, or run and
	// must not.
	Waiting []string
	Tasks   []task
	// Strays are files that nobody should have left.
	Strays []string
	Claims claimsSeen
	// Unreleased are the devices of holders that have ended that the backend was not called to release,
	// Released those of claims with pods that it was called to release, or never to prepare.
	Unreleased, Released []string
}

// agentSeen is one agent.
type agentSeen struct {
	PID   int
	Role  status.Role
	Error string // why it does not answer
	// Descriptors is how many files it has open, Baseline how many when it first was
	// at rest, or 0.
	Descriptors, Baseline int
}

// given is a CDI name that a container was given.
type given struct {
	Pod, Resource string
	Name          string
	// Meant and Means are what is behind it: when it was given, and now; ""
	// if it cannot be resolved. Excused says that this is not the agent's fault.
	Meant, Means string
	Excused      bool
	claim        *podClaim // nil if it is that of a device, or of several
}

// look makes an observation; deep adds what takes longer to look at.
func (w *world) look(ctx context.Context, deep bool) *observation {
	o := &observation{Incidents: w.watch.seen(), KubeletUp: w.m.kubelet, Holds: w.holds(), Backends: len(w.m.configured())}
	for _, b := range w.m.configured() {
		if b.down() {
			o.Down++
		}
	}
	o.Wanted = w.m.expected(o.Holds)
	var active *process
	for _, p := range w.agents {
		seen := agentSeen{PID: p.pid, Baseline: w.baselines[p.pid]}
		report, err := status.NewClient(p.runDir).Report(ctx)
		if err != nil {
			seen.Error = err.Error()
		}
		if seen.Role = report.Role; seen.Role == status.RoleActive {
			active = p
			o.Waiting = w.waiting(report)
		}
		if deep {
			seen.Descriptors = descriptors(p.pid)
		}
		o.Agents = append(o.Agents, seen)
	}
	if o.KubeletUp {
		w.lookAtKubelet(o)
	}
	if active != nil {
		w.lookAtFaults(ctx, o, active)
	}
	w.lookAtClaims(ctx, o)
	for _, b := range w.m.configured() {
		if resource, _ := w.m.resourceOf(b); b.down() && b.litter { // held over
			maps.DeleteFunc(o.Listed[resource], func(unit string, _ health) bool { return o.Wanted[resource][unit] == 0 })
		}
	}
	if w.m.epsilon.wild { // and what it has and says is its own affair
		delete(o.Listed, wildName)
		o.Backends, o.Down = o.Backends-1, o.Down-1
	}
	if deep {
		o.Tasks = slices.DeleteFunc(tasks(w.dir), func(t task) bool { return w.m.epsilon.wild && t.Name == w.selfName })
		o.Given = w.resolve()
		o.Strays = w.strays(o)
		o.Sockets = w.sockets()
		w.lookAtRecord(o)
		w.lookAtCalls(o)
	}
	return o
}

// waiting are the backends that can run and do not, or not under their configuration,
// or run a program that they must not.
func (w *world) waiting(report status.Report) []string {
	var waiting []string
	for _, b := range w.m.configured() {
		have := status.Backend{State: "not there"}
		for _, known := range report.Backends {
			if known.Name == b.name {
				have = known
			}
		}
		dead := w.killed[have.PID] == b
		if have.PID != 0 && !dead { // numbers come again
			maps.DeleteFunc(w.killed, func(_ int, of *backend) bool { return of == b })
		}
		if !b.down() && (have.State != string(supervisor.Running) || dead) {
			waiting = append(waiting, fmt.Sprintf("%s is %s (%s)", b.name, have.State, have.LastError))
		}
		if b.wrong && have.State == string(supervisor.Running) && !dead {
			waiting = append(waiting, b.name+" runs a program that is not the pinned one")
		}
	}
	return waiting
}

func (w *world) lookAtKubelet(o *observation) {
	seen := w.kubelet.Seen()
	if seen == nil {
		seen = &kubeletSeen{} // it has nothing, then
	}
	o.Duplicates, o.Connections = seen.Duplicates, seen.Connections
	o.Listed = map[string]map[string]health{}
	for name, r := range seen.Resources {
		units := map[string]health{}
		for _, unit := range r.Orphaned {
			// Kubelet gives them to nobody, and forgets them after minutes: an agent that was
			// started since has none of them to serve perhaps.
			units[unit] = unhealthy | absent
		}
		for _, unit := range r.Unhealthy {
			units[unit] = unhealthy
		}
		for _, unit := range r.Healthy {
			units[unit] = healthy
		}
		o.Listed[name] = units
	}
}

func (w *world) lookAtFaults(ctx context.Context, o *observation, active *process) {
	o.Known, o.Standing = map[string][]string{}, map[string][]string{}
	devices, err := status.NewClient(active.runDir).Devices(ctx)
	if err != nil {
		return // oneAgent tells
	}
	of := map[string]*backend{}
	for _, b := range w.m.all() {
		for _, d := range b.devices {
			of[d.id] = b
		}
	}
	for _, d := range devices {
		o.Known[d.ID] = []string{}
		for _, f := range d.Faults {
			text := f.Code
			if b := of[d.ID]; b != nil {
				text = b.translated(text)
			}
			o.Known[d.ID] = append(o.Known[d.ID], text)
		}
	}
	for _, b := range w.m.configured() {
		for _, d := range b.devices {
			if !b.down() && w.m.present(b, d) && !b.mayMiss(d) {
				o.Standing[d.id] = w.m.standing(b, d, o.Holds)
				if w.m.mended(b, d, o.Holds) {
					o.Recovered = append(o.Recovered, d.id)
				}
			}
		}
	}
}

// holds are those of kubelet's books.
func (w *world) holds() []hold {
	all := w.claims.holds()
	for _, a := range w.kubelet.Allocations() {
		for _, unit := range a.Devices {
			all = append(all, hold{Pod: a.Pod, Resource: a.Resource, Unit: unit})
		}
	}
	return all
}

// take notes the CDI names of an allocation.
func (w *world) take(a *kubelettest.Allocation) error {
	var names []string
	for _, d := range a.Response.GetCdiDevices() {
		names = append(names, d.GetName())
	}
	_, annotated, err := cdi.ParseAnnotations(a.Response.GetAnnotations())
	if err != nil {
		return &violation{namesResolve, fmt.Sprintf("the annotations %v of %s: %v", a.Response.GetAnnotations(), a.Pod, err)}
	}
	definitions := w.definitions()
	for _, name := range append(names, annotated...) {
		if strings.Contains(name, "/holder=") {
			continue // it is defined before each start, not before
		}
		w.given = append(w.given, given{Pod: a.Pod, Resource: a.Resource, Name: name, Meant: definitions(name)})
	}
	return nil
}

// resolve is what the CDI names of running containers are now.
func (w *world) resolve() []given {
	definitions := w.definitions()
	w.given = slices.DeleteFunc(w.given, func(g given) bool { return !w.living(g.Pod) })
	// A name that was given just after somebody deleted the directory means what it
	// first means after that.
	for i := range w.given {
		if w.given[i].Meant == "" {
			w.given[i].Meant = definitions(w.given[i].Name)
		}
	}
	all := slices.Clone(w.given)
	for i := range all {
		all[i].Means = definitions(all[i].Name)
		all[i].Excused = w.m.foreign != "" && all[i].Name == foreignKind+"="+w.m.foreign ||
			all[i].claim != nil && all[i].claim.excused
	}
	return all
}

// definitions loads the directory with the CDI library, as a container runtime does,
// and says what a name stands for.
func (w *world) definitions() func(name string) string {
	cache, err := cdi.NewCache(cdi.WithSpecDirs(w.path("disk", "cdi")), cdi.WithAutoRefresh(false))
	return func(name string) string {
		if err != nil {
			return ""
		}
		d := cache.GetDevice(name)
		if d == nil {
			return ""
		}
		// What all definitions of a file have in common is in the file once.
		edits := (&cdi.ContainerEdits{ContainerEdits: &specs.ContainerEdits{}}).
			Append(&cdi.ContainerEdits{ContainerEdits: &d.GetSpec().ContainerEdits}).Append(&cdi.ContainerEdits{ContainerEdits: &d.ContainerEdits})
		slices.Sort(edits.Env)
		text, err := json.Marshal(edits.ContainerEdits)
		if err != nil {
			return ""
		}
		return string(text)
	}
}

// known are the files that may be on the disk and in the run directories.
var known = regexp.MustCompile(`^(disk/filler|disk/state/((devices|health|usage|profile)(\.corrupt)?|health\.reserve|lock|standby\.lock|claims/iota\.accelmux\.io_[0-9a-f-]+)` +
	`|disk/cdi/(accelmux-[a-z]+-[a-z]+\.json(\.corrupt)?|accelmux-[a-z]+\.lock|foreign\.json)|rest/run-[0-9]+/(run\.lock|[a-z]+\.sock))$`)

// wildSockets are the sockets of a backend that crashes and is started again: one that
// is about to go, and one that has just come.
const wildSockets = 2

// strays are the files that nobody should have left. The backends' sockets may be as
// many as there are backends.
func (w *world) strays(o *observation) []string {
	_, strays := w.inKubelets()
	var plugins []string
	roots, err := filepath.Glob(w.path("rest", "run-*"))
	if err != nil {
		return []string{err.Error()}
	}
	for _, root := range append(roots, w.path("disk")) {
		err := filepath.WalkDir(root, func(path string, entry os.DirEntry, err error) error {
			relative := strings.TrimPrefix(path, w.dir+"/")
			switch {
			case errors.Is(err, fs.ErrNotExist):
				return nil // gone meanwhile
			case err != nil:
				return err
			case filepath.Base(filepath.Dir(path)) == "backends":
				plugins = append(plugins, relative)
				return fs.SkipDir
			case !entry.IsDir() && !known.MatchString(relative):
				strays = append(strays, relative)
			}
			return nil
		})
		if err != nil {
			strays = append(strays, err.Error())
		}
	}
	most := len(o.Tasks) - len(o.Agents)
	if w.m.epsilon.wild {
		most += wildSockets
	}
	if len(plugins) > max(most, 0) {
		strays = append(strays, fmt.Sprintf("of %d backends: %s", most, strings.Join(plugins, ", ")))
	}
	return strays
}

// ofPlugin is a name that the agent gives a socket: it is hidden until it listens.
var ofPlugin = regexp.MustCompile(`^\.?accelmux-.*\.sock$`)

// sockets are the plugins' in kubelet's directories.
func (w *world) sockets() []string {
	sockets, _ := w.inKubelets()
	return sockets
}

// inKubelets is what agents have made in kubelet's directories: sockets, and what else
// there is by their name.
func (w *world) inKubelets() (sockets, others []string) {
	for _, dir := range []string{w.kubelet.PluginDir(), w.kubelet.RegistryDir()} {
		entries, err := os.ReadDir(dir)
		if err != nil {
			continue // there is none now
		}
		for _, entry := range entries {
			path := filepath.Join(dir, entry.Name())
			switch {
			case ofPlugin.MatchString(entry.Name()):
				sockets = append(sockets, path)
			case entry.Name() == claimDriver+"-reg.sock": // kubelet hears of it by slicesRight
			case strings.Contains(entry.Name(), "accelmux"):
				others = append(others, path)
			}
		}
	}
	return sockets, others
}

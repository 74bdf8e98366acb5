package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/accelmux/accelmux/core/deviceplugin/kubelettest"
	"github.com/accelmux/accelmux/core/kubeapi/clustertest"
	"github.com/accelmux/accelmux/core/status"
	"github.com/accelmux/accelmux/test/hostile"
	"github.com/accelmux/accelmux/test/patience"
)

// errSkip is in the error of an action that makes no sense as things are.
var errSkip = errors.New("nothing to do")

// violation is an invariant that does not hold.
type violation struct{ name, what string }

func (v *violation) Error() string { return v.name + ": " + v.what }

// world is the node: its files, its processes, and what is true of it.
type world struct {
	dir   string
	bound time.Duration // of everything that is waited for
	// mounts says that file systems of the node's own can be mounted.
	mounts bool

	// The programs: of the agent, the mock backend, and this one, which is the hostile
	// backend, too.
	programs, agent, mock, self string
	library                     string // of NVML; "" for none
	selfName                    string // as proc(5) has it

	// hardware is where sysfs and devfs are that vendors' backends read; "" for none.
	hardware string

	m       *model
	server  *clustertest.Server
	watch   *watch
	kubelet kubelet
	agents  []*process // alive, the oldest first
	log     *os.File   // of all agents

	given     []given
	killed    map[int]*backend // processes that the agent may have yet to miss
	baselines map[int]int      // open files of an agent when it first was at rest
	pods      []string         // with devices by the device plugin API, the oldest first
	claims    claims
	calls     calls
	serial    int // for names that are used once
	double    double
	mute      *mute // in kubelet's place; nil for none
	clocks    clocks
	waited    error // what settle waited for last; nil if nothing
	rushed    bool  // something happened since the node was last at rest
}

// newWorld makes a node at rest.
func newWorld(ctx context.Context, r *runner) (_ *world, err error) {
	dir, err := kubelettest.TempDir("chaos", longestTemp)
	if err != nil {
		return nil, err
	}
	w := &world{dir: dir, bound: r.bound, library: r.library, mounts: r.mounts, m: newModel(), watch: newWatch(), baselines: map[int]int{}, killed: map[int]*backend{}, calls: calls{of: map[use]*callsOf{}, users: map[string]string{}}}
	defer func() {
		if err != nil {
			err = errors.Join(err, w.close())
		}
	}()
	if w.log, err = os.Create(w.path("agents.log")); err != nil {
		return nil, err
	}
	if w.agent, err = filepath.Abs(r.agent); err != nil {
		return nil, err
	}
	w.server = clustertest.New(&w.double, nodeName, map[string]string{})
	if err := w.newClaims(ctx, r.kubelet != ""); err != nil {
		return nil, err
	}
	if err := w.lay(r.programs, r.library); err != nil {
		return nil, err
	}
	if w.kubelet, err = newKubelet(ctx, r.kubelet, w.kubeletDir(), w.watch, &w.claims); err != nil {
		return nil, err
	}
	if k := w.kubelet.Claims(); k != nil {
		w.claims.serve(k)
	}
	if err := w.kubelet.Start(); err != nil {
		return nil, err
	}
	if err := w.startAgent(w.runDir()); err != nil {
		return nil, err
	}
	if err := w.settle(ctx); err != nil {
		f := &failure{at: atStart, err: err, log: w.story()}
		if r.keep != "" {
			f.err = errors.Join(err, w.keepLog(r.keep))
		}
		return nil, f
	}
	return w, nil
}

// longestTemp is how long the name of TMPDIR may be, in bytes, to leave the sockets in
// kubelet's directories room below it.
const longestTemp = 17

// lay makes the node's files.
func (w *world) lay(programs, library string) error {
	for _, sub := range []string{"programs", "disk", "rest", "proc"} {
		if err := os.Mkdir(w.path(sub), 0o755); err != nil {
			return err
		}
	}
	if w.mounts {
		if err := errors.Join(mountDisk(w.path("disk")), mountDisk(w.path("rest"))); err != nil {
			return err
		}
	}
	programs, err := filepath.Abs(programs)
	if err != nil {
		return err
	}
	w.programs, w.mock = programs, filepath.Join(programs, mockName)
	text, err := os.ReadFile(w.mock)
	if err != nil {
		return fmt.Errorf("the mock backend is not built: %w", err)
	}
	w.m.checksum = fmt.Sprintf("sha256:%x", sha256.Sum256(text))
	if w.self, err = os.Executable(); err != nil {
		return err
	}
	if t, ok := readTask(os.Getpid()); ok {
		w.selfName = t.Name
	}
	if err := w.layVendors(programs, library); err != nil {
		return err
	}
	for _, b := range w.m.all() {
		if err := errors.Join(w.link(b), w.linkManifest(b), w.writeScenario(b)); err != nil {
			return err
		}
	}
	return errors.Join(w.boot(), w.writeConfig(), w.replace("kubeconfig", kubeconfig(w.server.URL())))
}

const (
	mockName = "accelmux-backend-mock"
	nodeName = "node-1"
)

func (w *world) path(parts ...string) string {
	return filepath.Join(append([]string{w.dir}, parts...)...)
}

func (w *world) program(b *backend) string { return w.path("programs", "accelmux-backend-"+b.name) }

// source is where the program of a backend is built.
func (w *world) source(b *backend) string {
	if b == w.m.epsilon {
		return w.self
	}
	if b.vendor != nil {
		return filepath.Join(w.programs, b.vendor.program)
	}
	return w.mock
}

// link makes the program of a backend what it was at first.
func (w *world) link(b *backend) error {
	return w.place(b, func(path string) error { return os.Symlink(w.source(b), path) })
}

// linkManifest puts the manifest of a backend beside its program, with the files that belong to it.
func (w *world) linkManifest(b *backend) error {
	if b == w.m.epsilon {
		return os.WriteFile(w.program(b)+".yaml", []byte(hostile.Manifest), 0o644)
	}
	files, err := filepath.Glob(w.source(b) + ".*")
	if err == nil && len(files) == 0 {
		err = fmt.Errorf("%s has no manifest beside it", w.source(b))
	}
	for _, file := range files {
		err = errors.Join(err, os.Symlink(file, w.program(b)+strings.TrimPrefix(file, w.source(b))))
	}
	return err
}

// place puts something else in the place of a backend's program, at once.
func (w *world) place(b *backend, put func(path string) error) error {
	temporary := w.path("." + b.name)
	return errors.Join(put(temporary), os.Rename(temporary, w.program(b)))
}

// next is a number that was not used before.
func (w *world) next() int {
	w.serial++
	return w.serial
}

func (w *world) runDir() string { return w.path("rest", fmt.Sprintf("run-%d", w.next())) }

func (w *world) kubeletDir() string { return w.path("rest", "kubelet") }

// boot gives the node a boot ID that it did not have before.
func (w *world) boot() error {
	random := w.path("proc", "sys", "kernel", "random")
	if err := os.MkdirAll(random, 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(random, "boot_id"), fmt.Appendf(nil, "00000000-0000-4000-8000-%012d\n", w.next()), 0o644)
}

func (w *world) writeConfig() error { return w.replace("node.yaml", w.configuration()) }

// configuration is the node's.
func (w *world) configuration() string {
	return strings.NewReplacer("DIR/", w.hardware+"/", "LIBRARY", w.library).Replace(w.m.configuration(w.dir))
}

// writeScenario has the hardware or the scenario of a backend be as the model says.
func (w *world) writeScenario(b *backend) error {
	if b.vendor != nil {
		return b.applyEntries()
	}
	return w.replace(b.name+".yaml", b.scenario())
}

// replace writes a file as an editor does, by a rename.
func (w *world) replace(name, text string) error {
	temporary := w.path("." + name)
	return errors.Join(os.WriteFile(temporary, []byte(text), 0o600), os.Rename(temporary, w.path(name)))
}

func (w *world) startAgent(runDir string) error {
	p, err := w.start(runDir, true)
	if err != nil {
		return err
	}
	w.agents = append(w.agents, p)
	return nil
}

// active is the agent that serves the node, or nil.
func (w *world) active(ctx context.Context) (*process, status.Report) {
	for _, p := range w.agents {
		if report, err := status.NewClient(p.runDir).Report(ctx); err == nil && report.Role == status.RoleActive {
			return p, report
		}
	}
	return nil, status.Report{}
}

// pid is the process of a backend at the active agent, or 0.
func (w *world) pid(ctx context.Context, b *backend) int {
	_, report := w.active(ctx)
	for _, have := range report.Backends {
		if have.Name == b.name {
			return have.PID
		}
	}
	return 0
}

// end ends an agent by a signal and waits until it is gone. One that was told to end
// must have cleared up; the directory of one that was killed goes, as that of a pod
// does, unless keep is set.
func (w *world) end(ctx context.Context, p *process, s syscall.Signal, keep bool) error {
	before := tasks(w.dir)
	if err := p.signal(s); err != nil {
		return err
	}
	if err := w.await(ctx, leakedProcess, "the agent does not end", func() bool { return !p.alive() }); err != nil {
		return err
	}
	for i, other := range w.agents {
		if other == p {
			w.agents = append(w.agents[:i:i], w.agents[i+1:]...)
			break
		}
	}
	// What cannot be cleared up is an error of the agent's, and rightly so.
	if s == syscall.SIGTERM && !w.m.readOnly && !w.m.diskFull {
		if err := cleared(p); err != nil {
			return err
		}
	}
	children := map[int]bool{}
	for _, t := range before {
		children[t.PID] = t.Parent == p.pid
	}
	if err := w.await(ctx, leakedProcess, "a backend outlives its agent", func() bool {
		for _, t := range tasks(w.dir) {
			if children[t.PID] {
				return false
			}
		}
		return true
	}); err != nil || keep {
		return err
	}
	return os.RemoveAll(p.runDir)
}

// cleared fails if an agent that was told to end did so with an error, or left
// something in its run directory.
func cleared(p *process) error {
	if !p.state.Success() {
		return &violation{oneAgent, fmt.Sprintf("an agent that was told to end says: %v", p.state)}
	}
	return filepath.WalkDir(p.runDir, func(path string, entry os.DirEntry, err error) error {
		if err == nil && !entry.IsDir() && entry.Name() != "run.lock" {
			return &violation{leakedFile, "an agent that was told to end left " + path}
		}
		return err
	})
}

// await waits until the condition holds; if it does not within the bound, that breaks
// the invariant.
func (w *world) await(ctx context.Context, invariant, what string, condition func() bool) error {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for limit, over := patience.NewLimit(w.bound), false; !condition(); over = limit.Over() {
		if over {
			return &violation{invariant, fmt.Sprintf("%s, for %v", what, w.bound)}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// close ends everything; nothing of the node stays.
func (w *world) close() error {
	var errs []error
	w.claims.close()
	for _, p := range w.agents {
		errs = append(errs, p.signal(syscall.SIGKILL))
		<-p.done
	}
	errs = append(errs, w.unmute())
	if w.kubelet != nil {
		errs = append(errs, w.kubelet.Close())
	}
	for _, t := range tasks(w.dir) {
		_ = syscall.Kill(t.PID, syscall.SIGKILL) // gone with its parent, as a rule
	}
	errs = append(errs, w.double.close())
	if w.log != nil {
		errs = append(errs, w.log.Close())
	}
	if w.mounts {
		errs = append(errs, unmountDisk(w.path("disk")), unmountDisk(w.path("rest")))
	}
	if w.hardware != "" {
		errs = append(errs, os.RemoveAll(w.hardware))
	}
	return errors.Join(append(errs, os.RemoveAll(w.dir))...)
}

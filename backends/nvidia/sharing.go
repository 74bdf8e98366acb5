package nvidia

import (
	"fmt"
	"maps"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/accelmux/accelmux/backends/nvidia/mps"
	"github.com/accelmux/accelmux/backends/nvidia/xid"
	"github.com/accelmux/accelmux/backends/sdk"
	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

// sharing is how GPUs are shared by MPS. Nil: they are not.
type sharing struct {
	config   *mps.Config
	notReady func(uuid string) error
}

// shareable reports whether MPS can share the GPU, be it lost or not.
func (s *sharing) shareable(known *record) bool {
	return s != nil && !known.gpu.MIGEnabled && s.config.Shares(known.gpu.UUID)
}

// plan is what the daemon is to do for the GPUs of the roster. One that has a fault
// is left out: CUDA sees none of the GPUs that are listed after one that is lost,
// and one that is to be reset must not be held open by a server.
func (s *sharing) plan(r *roster, table *xid.Table) *mps.Plan {
	if s == nil {
		return nil
	}
	gpus := map[string]uint64{}
	for uuid, known := range r.gpus {
		faulty := known.health(table).GetState() == backendv1.HealthState_HEALTH_STATE_UNHEALTHY
		if s.shareable(known) && !faulty {
			gpus[uuid] = known.gpu.MemoryBytes
		}
	}
	return s.config.Plan(gpus)
}

// share makes of a GPU one that is shared, and is healthy only while the daemon is
// ready.
func (s *sharing) share(d *sdk.Device) {
	d.PreparedFor = uint32(s.config.Replicas()) //nolint:gosec // 100 at most
	d.Attributes["sharing"] = sdk.String("mps")
	d.Attributes["sharingReplicas"] = sdk.Int(int64(s.config.Replicas()))
	if err := s.notReady(d.GetId()); err != nil {
		d.Health = sdk.Graver(d.Health, sdk.Fault("mps-not-ready", sdk.RecoverySelf, "the GPU is to be shared by MPS: "+err.Error()))
	}
	if d.Edits == nil {
		return // nobody gets the GPU yet
	}
	more := s.config.Edits()
	edits := proto.CloneOf(d.Edits) // other devices have parts of it
	if edits.Env == nil {
		edits.Env = map[string]string{}
	}
	maps.Copy(edits.Env, more.GetEnv())
	for _, m := range more.GetMounts() {
		// The container toolkit may have a mount of the directory that NVIDIA uses.
		edits.Mounts = slices.DeleteFunc(edits.Mounts, func(o *sdk.Mount) bool { return o.GetContainerPath() == m.GetContainerPath() })
		edits.Mounts = append(edits.Mounts, m)
	}
	d.Edits = edits
}

// strangers are GPUs that the settings name and that cannot be shared, in words.
func (s *sharing) strangers(r *roster) []string {
	if s == nil {
		return nil
	}
	var problems []string
	for _, uuid := range s.config.Chosen() {
		switch known := r.gpus[uuid]; {
		case known == nil:
			problems = append(problems, fmt.Sprintf("%s: mps.uuids names the GPU, but it is not there", uuid))
		case known.gpu.MIGEnabled:
			problems = append(problems, fmt.Sprintf("%s: mps.uuids names the GPU, but it is in MIG mode and is not shared", uuid))
		}
	}
	return problems
}

// sharing is how GPUs are shared now.
func (l *loop) sharing() *sharing {
	if l.cfg.mps == nil {
		return nil
	}
	return &sharing{config: l.cfg.mps, notReady: l.mps.NotReady}
}

// shareOut has the daemon run as it is needed now.
func (l *loop) shareOut() { l.mps.Want(l.sharing().plan(l.roster, l.cfg.table)) }

package supervisor

import (
	"hash/fnv"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/accelmux/accelmux/core/sandbox"
)

// The range of users that systemd gives to services while they run, and so no user of the node
// (https://systemd.io/UIDS-GIDS).
const (
	firstUser = 61184
	lastUser  = 65519
)

// boxes is what the sandboxes of all backends have in common.
type boxes struct {
	ownDir string
	hidden []string
	// cgroups is nil if the agent cannot make any. noCgroups is the reason, or else what the cgroups lack.
	cgroups   *sandbox.Cgroups
	noCgroups string

	mu sync.Mutex
	// users are the user IDs, by the backends' names.
	users map[string]int
}

func openBoxes(o Options, runDir string) *boxes {
	b := &boxes{ownDir: o.OwnDir, hidden: append([]string{runDir}, o.Hidden...), users: map[string]int{}, noCgroups: "the agent makes no cgroups"}
	if o.Cgroups {
		var err error
		if b.cgroups, err = sandbox.OpenCgroups("/proc"); err != nil {
			b.noCgroups = err.Error()
		} else if b.noCgroups = ""; len(b.cgroups.Lacking) > 0 {
			b.noCgroups = "without the controllers " + strings.Join(b.cgroups.Lacking, ", ") + ", which the agent's cgroup does not have"
		}
	}
	return b
}

// user returns the ID of a backend's own user. It depends on the name alone, unless another backend has that
// user already.
func (b *boxes) user(name string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	if user := b.users[name]; user != 0 {
		return user
	}
	used := map[int]bool{}
	for _, user := range b.users {
		used[user] = true
	}
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(name))
	const size = lastUser - firstUser + 1
	user := firstUser + int(hash.Sum32()%size)
	for used[user] {
		user = firstUser + (user-firstUser+1)%size
	}
	b.users[name] = user
	return user
}

// paths returns the paths of the host's trees.
func (i *instance) paths() sandbox.Paths {
	paths := i.backend.sup.paths
	return sandbox.Paths{Sysfs: paths.GetSysfs(), Devfs: paths.GetDevfs(), Procfs: paths.GetProcfs()}
}

// sandbox returns the sandbox of a process whose socket is in dir.
func (i *instance) sandbox(dir string) sandbox.Sandbox {
	boxes := i.backend.sup.boxes
	box := sandbox.Sandbox{
		Policy: i.spec.Sandbox, Given: i.rights.given, Dir: dir,
		Launcher: i.launcher(), Checksum: i.sum, ManifestChecksum: i.program.Manifest.Sum, Pinned: i.spec.Checksum != "",
		Paths: i.paths(),
		Own:   boxes.ownDir, Hidden: boxes.hidden, NoCgroup: boxes.noCgroups,
	}
	if box.Launcher != "" {
		return box // the container has its own user and cgroup
	}
	switch user := i.spec.Sandbox.User; user {
	case "", sandbox.UserOwn:
		box.UID = boxes.user(i.spec.Name)
	case sandbox.UserRoot:
	default:
		box.UID, _ = strconv.Atoi(user) // validated; 0 is root
	}
	if boxes.cgroups != nil && i.spec.Sandbox.Mode != sandbox.Off {
		var err error
		if box.Cgroup, err = boxes.cgroups.Make(filepath.Base(dir), i.spec.Sandbox); err != nil {
			box.NoCgroup = err.Error()
		}
	}
	return box
}

// endCgroup kills what is left in the cgroup of a process that has ended, and removes the cgroup, which is
// possible only when the kernel has ended them. It tries for patience.
func (b *boxes) endCgroup(dir string, patience time.Duration) error {
	if dir == "" {
		return nil
	}
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for limit := time.Now().Add(patience); ; <-tick.C {
		if err := b.cgroups.End(dir); err == nil || time.Now().After(limit) {
			return err
		}
	}
}

package fpgatree

import (
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/accelmux/accelmux/test/sysroot"
)

// Side is one of a card's functions.
type Side string

// The functions.
const (
	User       Side = "user"
	Management Side = "management"
)

// Alveo is the path, below the root, of a function of an Alveo card.
func (t *Tree) Alveo(i int, side Side) (string, error) {
	at, ok := t.machine.Alveos[i].function(side)
	if !ok || t.alveos[i].unplugged {
		return "", fmt.Errorf("Alveo card %d has no %s function here", i, side)
	}
	return directory(at), nil
}

// AlveoFile is the path, below the root, of a file of a function: "ready", or one of a
// subdevice, "rom/VBNV" being rom.u.<n>/VBNV. It need not exist but for its directory.
func (t *Tree) AlveoFile(i int, side Side, name string) (string, error) {
	dir, err := t.Alveo(i, side)
	if err != nil {
		return "", err
	}
	kind, file, ok := strings.Cut(name, "/")
	if !ok {
		return path.Join(dir, name), nil
	}
	found, err := filepath.Glob(filepath.Join(t.Root, dir, kind+".*"))
	if err != nil {
		return "", err
	}
	if len(found) == 0 {
		return "", fmt.Errorf("the %s function of Alveo card %d has no %s", side, i, kind)
	}
	return path.Join(dir, filepath.Base(found[0]), file), nil
}

// SetAlveo replaces a file of a function that is there; see AlveoFile.
func (t *Tree) SetAlveo(i int, side Side, name, content string) error {
	file, err := t.AlveoFile(i, side, name)
	if err != nil {
		return err
	}
	return t.replace(file, content)
}

// LoadXclbin has a card say what is loaded; empty for nothing.
func (t *Tree) LoadXclbin(i int, uuid string) error {
	if uuid != "" {
		uuid += "\n"
	}
	return t.SetAlveo(i, User, "xclbinuuid", uuid)
}

// TripFirewall trips the firewall of a level, with a status, at a time in seconds since
// 1970. Status 0 opens it: what was detected stays. Both functions say so, or those that
// are given, as during a reset.
func (t *Tree) TripFirewall(i int, level int, name string, status uint32, at int64, sides ...Side) error {
	files := map[string]string{"level": noLevel, "status": "0"}
	if status != 0 {
		files = map[string]string{
			"level": fmt.Sprint(level), "status": fmt.Sprint(status), "detected_status": fmt.Sprint(status),
			"detected_level": fmt.Sprint(level), "detected_level_name": name, "detected_time": fmt.Sprint(at),
		}
	}
	if len(sides) == 0 {
		sides = t.machine.Alveos[i].sides()
	}
	for _, side := range sides {
		for file, text := range files {
			if err := t.SetAlveo(i, side, "firewall/"+file, text+"\n"); err != nil {
				return err
			}
		}
	}
	return nil
}

// BeginReset begins the reset of a card. Until it ends, what does not persist over it is
// gone from the user function, and the management function is offline.
func (t *Tree) BeginReset(i int) error {
	c, l := t.machine.Alveos[i], t.alveos[i].loaded
	dir, err := t.Alveo(i, User)
	if err != nil || l == nil {
		return fmt.Errorf("Alveo card %d cannot be reset here: %w", i, err)
	}
	for _, name := range []string{"dev_offline", "ready"} {
		if err := t.replace(path.Join(dir, name), map[string]string{"dev_offline": "1\n", "ready": "0x0\n"}[name]); err != nil {
			return err
		}
	}
	if _, ok := c.function(Management); ok {
		if err := t.SetAlveo(i, Management, "dev_offline", "1\n"); err != nil {
			return err
		}
	}
	w := t.writer()
	l.dirs = slices.DeleteFunc(l.dirs, func(name string) bool {
		below, sub := path.Dir(name) == dir, strings.Contains(path.Base(name), ".u.")
		if !below || !sub {
			return false
		}
		w.Remove(name)
		return true
	})
	return w.Err
}

// EndReset ends a reset: the card is as before, with nothing loaded.
func (t *Tree) EndReset(i int) error {
	c, l := t.machine.Alveos[i], t.alveos[i].loaded
	dir, err := t.Alveo(i, User)
	if err != nil || l == nil {
		return fmt.Errorf("Alveo card %d cannot be reset here: %w", i, err)
	}
	c.Xclbin = ""
	if _, ok := c.function(Management); ok {
		if err := t.SetAlveo(i, Management, "dev_offline", "0\n"); err != nil {
			return err
		}
	}
	w := t.writer()
	persistent := []string{"driver", "user_pf", "shutdown", "dev_hotplug_done", "drm"}
	l.dirs = slices.DeleteFunc(l.dirs, func(name string) bool {
		goes := path.Dir(name) == dir && !slices.Contains(persistent, path.Base(name))
		if goes {
			w.Remove(name)
		}
		return goes
	})
	t.userSide(w, l, c, dir)
	if w.Err != nil {
		return w.Err
	}
	return t.replace(path.Join(dir, "shutdown"), "0\n")
}

// SpoilAlveo does a damage to a file of a function; see AlveoFile.
func (t *Tree) SpoilAlveo(i int, side Side, name string, damage sysroot.Damage) error {
	file, err := t.AlveoFile(i, side, name)
	if err != nil {
		return err
	}
	return t.Spoil(file, damage)
}

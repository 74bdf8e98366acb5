package fpgatree

import (
	"fmt"
	"path"
	"path/filepath"
	"strings"
)

// WriteShutdown does what xocl does when text is written to the file shutdown of a card's
// user function, all of it before it returns: "1" resets the card and leaves it shut
// down; "0" brings it back. In a virtual machine it comes back by itself, and only stays
// marked. The file is any path of it in the tree.
func (t *Tree) WriteShutdown(file, text string) error {
	name := filepath.Base(filepath.Dir(file))
	for i, c := range t.machine.Alveos {
		at, ok := c.function(User)
		if !ok || at.String() != name || t.alveos[i].loaded == nil {
			continue
		}
		shutdown := path.Join(directory(at), "shutdown")
		switch strings.TrimSpace(text) {
		case "1":
			if err := t.BeginReset(i); err != nil {
				return err
			}
			t.InReset()
			if _, ok := c.function(Management); ok {
				if err := t.SetAlveo(i, Management, "dev_offline", "0\n"); err != nil {
					return err
				}
			} else if err := t.EndReset(i); err != nil {
				return err
			}
			return t.replace(shutdown, "1\n")
		case "0":
			return t.EndReset(i)
		}
		return fmt.Errorf("%q was written to %s: xocl knows 0 and 1 of what may be written", text, file)
	}
	return fmt.Errorf("%s is not of a user function of this tree", file)
}

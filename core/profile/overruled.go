package profile

import (
	"fmt"
	"slices"

	"github.com/accelmux/accelmux/core/config"
)

// Overruled returns why [Choose] chooses a profile for no node, or for none without an error: another profile applies to all of
// its nodes, or its nodeSelector contradicts itself. It is "" if that is not so, as far as the nodeSelectors show it one by one. A profile that the command line names
// always applies.
func Overruled(c *config.NodeConfig, index int) string {
	p := &c.Profiles[index]
	if p.NodeSelector == nil {
		return plainOverruled(c, index)
	}
	if label := p.NodeSelector.Contradiction(); label != "" {
		return fmt.Sprintf("no node gets profile %s, unless --profile names it: no value of the label %s meets all of its nodeSelector", p.Name, label)
	}
	tie := ""
	for i := range c.Profiles {
		o := &c.Profiles[i]
		switch {
		case i == index || o.Priority < p.Priority || !o.NodeSelector.Covers(p.NodeSelector):
		case o.Priority > p.Priority:
			return fmt.Sprintf("no node gets profile %s, unless --profile names it: profile %s matches all of its nodes with the higher priority %d", p.Name, o.Name, o.Priority)
		case tie == "" && (i < index || !p.NodeSelector.Covers(o.NodeSelector)): // once for two that match the same nodes
			tie = fmt.Sprintf("profile %s matches the nodes of profile %s, too, with the same priority %d, and then none applies: give one a higher priority", o.Name, p.Name, p.Priority)
		}
	}
	return tie
}

// plainOverruled is Overruled for a profile without a nodeSelector.
func plainOverruled(c *config.NodeConfig, index int) string {
	name, plain := c.Profiles[index].Name, []string{}
	for i := range c.Profiles {
		switch o := &c.Profiles[i]; {
		case o.NodeSelector == nil:
			plain = append(plain, o.Name)
		case o.NodeSelector.Covers(&config.NodeSelector{}):
			return fmt.Sprintf("no node gets profile %s, unless --profile names it: profile %s, whose nodeSelector is empty, matches every node", name, o.Name)
		}
	}
	switch {
	case name == config.DefaultProfile || len(plain) == 1:
		return ""
	case slices.Contains(plain, config.DefaultProfile):
		return fmt.Sprintf("no node gets profile %s, unless --profile names it: it has no nodeSelector, and of those without one the profile %s applies", name, config.DefaultProfile)
	case plain[0] == name:
		return "" // reported once, with another
	}
	return fmt.Sprintf("the profiles %s and %s have no nodeSelector, and then none applies: name one of them %s, or give it a nodeSelector", plain[0], name, config.DefaultProfile)
}

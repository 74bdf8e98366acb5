package topology

// score counts what is chosen.
func (t *Topology) score(c *call) Score {
	var s Score
	c.counts = grow(c.counts, len(t.devices))
	clear(c.counts)
	c.touched = c.touched[:0]
	size := int64(0)
	for u, state := range c.state {
		if state&chosen == 0 {
			continue
		}
		d := t.device[u]
		if c.counts[d] == 0 {
			c.touched = append(c.touched, d)
		}
		c.counts[d]++
		size++
	}
	s.Devices = len(c.touched)
	for _, d := range c.touched {
		s.Repeats += pairs(c.counts[d])
	}
	s.Weakest = -1
	if t.tree != nil {
		t.tree.links(c, &s, size)
	} else {
		t.links(c, &s)
	}
	t.spread(c, &s)
	return s
}

// links are summed up link by link.
func (t *Topology) links(c *call, s *Score) {
	if len(c.touched) > 1 {
		s.Weakest = noLink
	}
	for _, a := range c.touched {
		linked := 1
		for _, n := range t.graph.neighbors[a] {
			if c.counts[n.device] == 0 {
				continue
			}
			linked++
			s.Weakest = min(s.Weakest, n.weight)
			if n.device > a {
				s.Links += n.weight * c.counts[a] * c.counts[n.device]
			}
		}
		if linked < len(c.touched) {
			s.Weakest = 0 // a pair without a link
		}
	}
}

// links of a tree are summed up node by node.
func (t *tree) links(c *call, s *Score, size int64) {
	w := &c.work
	w.take = grow(w.take, len(t.nodes))
	clear(w.take)
	for u, state := range c.state {
		if state&chosen != 0 {
			w.take[t.leaf[u]]++
		}
	}
	around := -1 // the smallest cluster with all of them
	for i := len(t.nodes) - 1; i >= 0; i-- {
		n, x := &t.nodes[i], w.take[i]
		s.Links += n.links * pairs(x)
		if n.parent >= 0 {
			w.take[n.parent] += x
		}
		if n.top && x == size && around < 0 {
			around = i
		}
	}
	if s.Devices > 1 {
		s.Weakest = t.nodes[around].weight
	}
}

// spread counts NUMA nodes, physical devices and load.
func (t *Topology) spread(c *call, s *Score) {
	c.nodes = grow(c.nodes, len(t.nodes))
	clear(c.nodes)
	for _, d := range c.touched {
		if t.numa[d] < 0 {
			s.NUMANodes += int(c.counts[d])
			continue
		}
		for _, n := range t.numaSets[t.numa[d]] {
			if !c.nodes[n] {
				c.nodes[n] = true
				s.NUMANodes++
			}
		}
	}
	c.counts = grow(c.counts, max(len(t.devices), t.physicals))
	clear(c.counts)
	for u, state := range c.state {
		if state&chosen != 0 {
			c.counts[t.physical[t.device[u]]]++
		}
	}
	for _, x := range c.counts {
		s.Physical += int(min(x, 1))
		s.Together += pairs(x)
	}
	group := t.physical
	if t.options.Policy == BestLinks && t.replicas {
		group = t.own
	}
	clear(c.counts)
	for u, state := range c.state {
		if state == 0 || state&chosen != 0 {
			c.counts[group[t.device[u]]]++
		}
	}
	for _, x := range c.counts {
		s.Load += x * x
	}
}

// left counts what is not chosen.
func (t *Topology) left(c *call) Left {
	l := Left{Pairs: -1, Fours: -1, Eights: -1, Near: -1}
	for _, state := range c.state {
		if state != 0 && state&chosen == 0 {
			l.Units++
		}
	}
	for i, g := range t.goals {
		var n, near int
		if t.tree != nil {
			n, near = t.tree.sets(c, i, g.size)
		} else {
			n, near = t.subsets.sets(c, g.size)
		}
		switch g.size {
		case 8:
			l.Eights = n
		case 4:
			l.Fours = n
		case 2:
			l.Pairs, l.Near = n, near
		}
	}
	return l
}

// sets is how many good sets can be made of what is left, and how many pairs there are
// where they can be made.
func (t *tree) sets(c *call, goal, size int) (n, near int) {
	// Every unit is inside of one node with the goal at most.
	w := &c.work
	w.take = grow(w.take, len(t.nodes))
	clear(w.take)
	for u, state := range c.state {
		if state != 0 && state&chosen == 0 {
			w.take[t.leaf[u]]++
		}
	}
	for i := len(t.nodes) - 1; i >= 0; i-- {
		for _, has := range t.nodes[i].goals {
			if has == goal {
				n += int(w.take[i]) / size
				near += int(pairs(w.take[i]))
			}
		}
		if up := t.nodes[i].parent; up >= 0 {
			w.take[up] += w.take[i]
		}
	}
	return n, near
}

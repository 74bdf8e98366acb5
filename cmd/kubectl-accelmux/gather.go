package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/accelmux/accelmux/cmd/arguments"
	"github.com/accelmux/accelmux/core/status/listing"
)

// Device is one device of a node.
type Device struct {
	Node string `json:"node"`
	// Driver is the DRA driver whose ResourceSlice has the device; "" if the node's agent reported it.
	Driver string `json:"driver,omitempty"`
	listing.Device

	// ours: the slice is of an agent of accelmux. at is the device's place in slices.
	ours bool
	at   pooled
}

// nodeSelection is which nodes are asked.
type nodeSelection struct{ node, labels, fields string }

func selectionFlags(cmd *cobra.Command) *nodeSelection {
	s, flags := new(nodeSelection), cmd.Flags()
	flags.StringVar(&s.node, "node", "", "only this `node`")
	flags.StringVarP(&s.labels, "selector", "l", "", "only nodes with these `labels`")
	flags.StringVar(&s.fields, "field-selector", "", "only nodes with these `fields`, such as spec.unschedulable=false")
	arguments.NotBeside(cmd, "node", "selector", "field-selector")
	return s
}

// nodes returns the selected nodes.
func (c *cluster) nodes(ctx context.Context, s *nodeSelection) ([]corev1.Node, error) {
	if s.node != "" {
		node, err := c.client.CoreV1().Nodes().Get(ctx, s.node, metav1.GetOptions{})
		if err != nil {
			return nil, fmt.Errorf("get the node: %w", err)
		}
		return []corev1.Node{*node}, nil
	}
	list, err := c.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: s.labels, FieldSelector: s.fields, ResourceVersion: "0"})
	if err != nil {
		return nil, fmt.Errorf("list nodes: %w", err)
	}
	return list.Items, nil
}

// asksAtOnce bounds the agents that are asked at once.
const asksAtOnce = 16

// each calls ask with the agent of each selected node, and prints the errors; errReported then.
func (c *cluster) each(ctx context.Context, s *nodeSelection, stderr io.Writer, ask func(node string, a *agent) error) error {
	nodes, err := c.nodes(ctx, s)
	if err != nil {
		return err
	}
	agents, err := c.agents(ctx)
	if err != nil {
		return err
	}
	errs := make([]error, len(nodes))
	var asking sync.WaitGroup
	places := make(chan struct{}, asksAtOnce)
	for i, node := range nodes {
		places <- struct{}{}
		asking.Go(func() {
			defer func() { <-places }()
			var at *agent
			if a, ok := agents[node.Name]; ok {
				at = &a
			}
			errs[i] = ask(node.Name, at)
		})
	}
	asking.Wait()
	if err := ctx.Err(); err != nil {
		return err
	}
	for i, e := range errs {
		if e != nil {
			fmt.Fprintf(stderr, "node %s: %v\n", nodes[i].Name, e)
			err = errReported
		}
	}
	return err
}

// devices returns the devices of the selected nodes: what their agents report and, of other drivers and where no agent
// answers, what the ResourceSlices have. The error is errReported if an agent did not answer; devices are returned then, too.
func (c *cluster) devices(ctx context.Context, s *nodeSelection, stderr io.Writer) ([]Device, error) {
	names, err := c.readNames(ctx)
	if err != nil {
		return nil, err
	}
	published, err := c.published(ctx, names)
	if err != nil {
		return nil, err
	}
	var mu sync.Mutex
	all := []Device{}
	err = c.each(ctx, s, stderr, func(node string, a *agent) error {
		var reported []listing.Device
		var failed error
		if a != nil {
			failed = c.ask(ctx, *a, "v1/devices", &reported)
		}
		mu.Lock()
		defer mu.Unlock()
		for _, d := range published[node] {
			if a == nil || failed != nil || !d.ours {
				all = append(all, d)
			}
		}
		for _, d := range reported {
			names.name(d.Holders)
			all = append(all, Device{Node: node, Device: d})
		}
		return failed
	})
	if err != nil && !errors.Is(err, errReported) {
		return nil, err
	}
	slices.SortStableFunc(all, func(a, b Device) int {
		return cmp.Or(cmp.Compare(a.Node, b.Node), cmp.Compare(a.Backend, b.Backend), cmp.Compare(a.ID, b.ID))
	})
	return all, err
}

// explained returns what a forbidden request needs.
func explained(err error) error {
	if apierrors.IsForbidden(err) {
		return fmt.Errorf("%w; docs/kubectl.md has the rights that the plugin needs", err)
	}
	return err
}

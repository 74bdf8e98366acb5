package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"

	"github.com/accelmux/accelmux/cmd/arguments"
	"github.com/accelmux/accelmux/core/cordon"
	"github.com/accelmux/accelmux/core/status/listing"
	"github.com/accelmux/accelmux/core/suggestion"
)

func newCordonCommand(connection *connection) *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use:   "cordon NODE DEVICE",
		Short: "Keep a device from new pods",
		Long: `Keeps a device from new pods, until uncordon. Pods that have it keep it. DEVICE is an ID or BACKEND/ID, as
devices lists it. Your name and the reason are stored with it: in the Node's annotation ` + cordon.Annotation + `
for a device of an agent of accelmux, and in a DeviceTaintRule for one of another DRA driver.`,
		Example: `  kubectl accelmux cordon gpu-1 nvidia/GPU-9d2c4a1e --reason "replace the fan"`,
		Args:    arguments.Exactly(2),
	}
	cmd.Flags().StringVar(&reason, "reason", "", "why, for the people who see it")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, err := connection.open()
		if err != nil {
			return err
		}
		device, at, err := c.target(cmd.Context(), args[0], args[1])
		if err != nil {
			return explained(err)
		}
		by := c.user(cmd.Context())
		if at == nil {
			entry := cordon.Entry{Device: device, By: by, Reason: reason, Since: time.Now().UTC().Truncate(time.Second)}
			err = c.annotate(cmd.Context(), args[0], func(value string) (string, error) { return cordon.Add(value, entry) })
		} else {
			err = c.addRule(cmd.Context(), args[0], *at, by, reason)
		}
		if err != nil {
			return explained(err)
		}
		fmt.Fprintf(cmd.OutOrStdout(), "device %s of node %s cordoned\n", device, args[0])
		return nil
	}
	return cmd
}

func newUncordonCommand(connection *connection) *cobra.Command {
	return &cobra.Command{
		Use:     "uncordon NODE DEVICE",
		Short:   "Let new pods have a cordoned device again",
		Long:    `Removes what cordon made. DEVICE is BACKEND/ID, or an ID that one entry has.`,
		Example: `  kubectl accelmux uncordon gpu-1 nvidia/GPU-9d2c4a1e`,
		Args:    arguments.Exactly(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := connection.open()
			if err != nil {
				return err
			}
			removed, err := c.uncordon(cmd.Context(), args[0], args[1])
			if err != nil {
				return explained(err)
			}
			fmt.Fprintf(cmd.OutOrStdout(), "device %s of node %s uncordoned\n", removed, args[0])
			return nil
		},
	}
}

// annotate changes the Node's annotation of cordoned devices. If another client changes the Node at the same time, it
// tries again with the new value.
func (c *cluster) annotate(ctx context.Context, node string, change func(string) (string, error)) error {
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		object, err := c.client.CoreV1().Nodes().Get(ctx, node, metav1.GetOptions{})
		if err != nil {
			return err
		}
		before := object.Annotations[cordon.Annotation]
		value, err := change(before)
		if err != nil || value == before {
			return err
		}
		object = object.DeepCopy()
		if value == "" {
			delete(object.Annotations, cordon.Annotation)
		} else {
			metav1.SetMetaDataAnnotation(&object.ObjectMeta, cordon.Annotation, value)
		}
		_, err = c.client.CoreV1().Nodes().Update(ctx, object, metav1.UpdateOptions{})
		return err
	})
}

// uncordon removes the annotation's entry, or the DeviceTaintRule, of a device, and returns BACKEND/ID of it.
func (c *cluster) uncordon(ctx context.Context, node, device string) (removed string, err error) {
	rules, err := c.cordonRules(ctx, node)
	if err != nil {
		return "", err
	}
	err = c.annotate(ctx, node, func(value string) (string, error) {
		entries, err := cordon.Parse(value)
		if err != nil {
			return "", err
		}
		cordoned := slices.Collect(maps.Keys(rules))
		for _, e := range entries {
			cordoned = append(cordoned, e.Device)
		}
		if removed, err = pick(device, cordoned, "cordoned on node "+node); err != nil {
			return "", err
		}
		if rules[removed] != "" {
			return value, nil
		}
		return cordon.Remove(value, removed)
	})
	if rule := rules[removed]; err == nil && rule != "" {
		err = c.client.ResourceV1().DeviceTaintRules().Delete(ctx, rule, metav1.DeleteOptions{})
	}
	return removed, err
}

// target returns BACKEND/ID of a device of a node, and its place in slices if it is one of another DRA driver, so that the
// node's agent does not serve it.
func (c *cluster) target(ctx context.Context, node, device string) (name string, at *pooled, err error) {
	published, err := c.published(ctx, new(names))
	if err != nil {
		return "", nil, err
	}
	places, names := map[string]*pooled{}, []string{}
	for _, d := range published[node] {
		if !d.ours {
			names = append(names, d.Backend+"/"+d.ID)
			places[names[len(names)-1]] = &d.at
		}
	}
	agents, err := c.agents(ctx)
	if err != nil {
		return "", nil, err
	}
	a, ok := agents[node]
	if ok {
		var devices []listing.Device
		if err := c.ask(ctx, a, "v1/devices", &devices); err != nil {
			return "", nil, err
		}
		for _, d := range devices {
			names = append(names, d.Backend+"/"+d.ID)
		}
	}
	if len(names) == 0 && !ok {
		return "", nil, c.noAgent(ctx, node)
	}
	if name, err = pick(device, names, "on node "+node); err != nil {
		return "", nil, fmt.Errorf("%w; `kubectl accelmux devices --node %s` lists its devices", err, node)
	}
	return name, places[name], nil
}

// pick returns the one name, BACKEND/ID, that is wanted or has the wanted ID. place is for errors.
func pick(wanted string, names []string, place string) (string, error) {
	var found []string
	for _, name := range names {
		if _, id, _ := strings.Cut(name, "/"); name == wanted {
			return name, nil
		} else if id == wanted {
			found = append(found, name)
		}
	}
	switch len(found) {
	case 0:
		return "", fmt.Errorf("no device %q is %s%s", wanted, place, suggestion.DidYouMean(wanted, names))
	case 1:
		return found[0], nil
	}
	return "", fmt.Errorf("several devices with the ID %q are %s: name one of %s", wanted, place, strings.Join(found, ", "))
}

// user returns the name by which the API server knows the user; "" if that fails.
func (c *cluster) user(ctx context.Context) string {
	review, err := c.client.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		return ""
	}
	return review.Status.UserInfo.Username
}

package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"

	"github.com/accelmux/accelmux/core/cordon"
	"github.com/accelmux/accelmux/core/status/listing"
	"github.com/accelmux/accelmux/core/suggestion"
)

func newCordonCommand(connection *connection) *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use:   "cordon NODE DEVICE",
		Short: "Keep a device from new pods",
		Long: `Keeps a device of an accelmux agent from new pods. Pods that have it keep it. DEVICE is an ID or BACKEND/ID, as
devices lists it. It is an entry of the Node's annotation ` + cordon.Annotation + `, with your name and the
reason, and stays until uncordon.`,
		Example: `  kubectl accelmux cordon gpu-1 nvidia/GPU-9d2c4a1e --reason "replace the fan"`,
		Args:    cobra.ExactArgs(2),
	}
	cmd.Flags().StringVar(&reason, "reason", "", "why, for the people who see it")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, err := connection.open()
		if err != nil {
			return err
		}
		device, err := c.deviceName(cmd.Context(), args[0], args[1])
		if err != nil {
			return explained(err)
		}
		entry := cordon.Entry{Device: device, By: c.user(cmd.Context()), Reason: reason, Since: time.Now().UTC().Truncate(time.Second)}
		if err := c.annotate(cmd.Context(), args[0], func(value string) (string, error) { return cordon.Add(value, entry) }); err != nil {
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
		Long:    `Removes the entry that cordon made. DEVICE is BACKEND/ID, or an ID that one entry has.`,
		Example: `  kubectl accelmux uncordon gpu-1 nvidia/GPU-9d2c4a1e`,
		Args:    cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := connection.open()
			if err != nil {
				return err
			}
			removed := ""
			err = c.annotate(cmd.Context(), args[0], func(value string) (string, error) {
				entries, err := cordon.Parse(value)
				if err != nil {
					return "", err
				}
				cordoned := make([]string, len(entries))
				for i, e := range entries {
					cordoned[i] = e.Device
				}
				if removed, err = pick(args[1], cordoned); err != nil {
					return "", fmt.Errorf("node %s, among the cordoned devices: %w", args[0], err)
				}
				return cordon.Remove(value, removed)
			})
			if err != nil {
				return explained(err)
			}
			fmt.Fprintf(cmd.OutOrStdout(), "device %s of node %s uncordoned\n", removed, args[0])
			return nil
		},
	}
}

// annotate changes the Node's annotation of cordoned devices. If somebody else changes the Node at the same time, it
// tries again with the new value.
func (c *cluster) annotate(ctx context.Context, node string, change func(string) (string, error)) error {
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		object, err := c.client.CoreV1().Nodes().Get(ctx, node, metav1.GetOptions{})
		if err != nil {
			return err
		}
		value, err := change(object.Annotations[cordon.Annotation])
		if err != nil {
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

// deviceName returns BACKEND/ID of a device that the node's agent lists.
func (c *cluster) deviceName(ctx context.Context, node, device string) (string, error) {
	agents, err := c.agents(ctx)
	if err != nil {
		return "", err
	}
	a, ok := agents[node]
	if !ok {
		return "", fmt.Errorf("no agent of accelmux runs on node %s, so nothing would read the annotation", node)
	}
	var devices []listing.Device
	if err := c.ask(ctx, a, "v1/devices", &devices); err != nil {
		return "", err
	}
	names := make([]string, len(devices))
	for i, d := range devices {
		names[i] = d.Backend + "/" + d.ID
	}
	name, err := pick(device, names)
	if err != nil {
		return "", fmt.Errorf("node %s: %w", node, err)
	}
	return name, nil
}

// pick returns the one name, BACKEND/ID, that is wanted or has the wanted ID.
func pick(wanted string, names []string) (string, error) {
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
		return "", fmt.Errorf("there is no device %q%s", wanted, suggestion.DidYouMean(wanted, names))
	case 1:
		return found[0], nil
	}
	return "", fmt.Errorf("several devices have the ID %q: name one of %s", wanted, strings.Join(found, ", "))
}

// user returns the name by which the API server knows the user; "" if it does not tell.
func (c *cluster) user(ctx context.Context) string {
	review, err := c.client.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		return ""
	}
	return review.Status.UserInfo.Username
}

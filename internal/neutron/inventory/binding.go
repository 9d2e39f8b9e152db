package inventory

import (
	"context"
	"encoding/json"
	"net/http"

	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	"cloudteam.ztgame.com/network-controller/internal/plan"
)

// opBind names the operation in errors and metrics.
const opBind = "bind port"

// Bind has Neutron expect a port of an owner on a host (binding:host_id). as sends the request, because a project's own
// credentials rarely have that right; nil means these credentials. The error is Forbidden if they lack the right.
//
// as may change every port of its cloud. So for a user's cloud, Bind first reads the port with it, and refuses one
// without the owner's marker: what that cloud says of the port may be a lie.
func (i *Inventory) Bind(ctx context.Context, owner plan.Owner, id, host string, as *client.Cloud) error {
	if i.ports.ownerOf(id) != owner {
		return &client.Error{Kind: client.Conflict, Op: opBind, Reason: "port " + id + " is not there any more"}
	}
	cloud := i.cloud
	if as != nil {
		if err := i.checkBinder(ctx, owner, id, as); err != nil {
			return err
		}
		cloud = as
	}
	defer i.ports.write(id)()
	i.join()
	var answer map[string]json.RawMessage
	err := i.queue.Write(ctx, opBind, flowOf(ctx), func() error {
		return cloud.Do(ctx, client.Request{
			Op: opBind, Method: http.MethodPut, Path: portKind.Path(id), Answer: &answer,
			Body: map[string]any{portKind.One: map[string]any{"binding:host_id": host}},
		})
	})
	if err != nil {
		return err
	}
	written, err := portKind.decodeAnswer(opBind, http.MethodPut, answer[portKind.One])
	if err != nil {
		return err
	}
	i.ports.edit(id, func(p *plan.ObservedPort) { p.Revision = max(p.Revision, written.Revision) })
	return nil
}

// checkBinder checks that as leads to the cloud that has the port, and that the port is the owner's there.
func (i *Inventory) checkBinder(ctx context.Context, owner plan.Owner, id string, as *client.Cloud) error {
	here, err := i.cloud.Identity(ctx)
	if err != nil {
		return err
	}
	there, err := as.Identity(ctx)
	if err != nil {
		return err
	}
	if here.Endpoint != there.Endpoint || here.Region != there.Region {
		return &client.Error{Kind: client.Forbidden, Op: opBind, Reason: "the credentials that bind ports are for another cloud"}
	}
	if i.tenant == "" {
		return nil // the controller's own cloud
	}
	w, err := client.Get[wirePort](ctx, as, opBind, portKind.Collection, portKind.fields, id)
	if err != nil {
		return err
	}
	if _, has, marked := plan.ParseDescription(w.Description); !marked || has != owner {
		return &client.Error{Kind: client.Conflict, Op: opBind, Reason: "port " + id + " has not this object's marker"}
	}
	return nil
}

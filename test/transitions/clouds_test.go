package transitions

import (
	"sync/atomic"

	"cloudteam.ztgame.com/network-controller/internal/controller"
	"cloudteam.ztgame.com/network-controller/internal/controller/managed"
	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	"cloudteam.ztgame.com/network-controller/internal/neutron/inventory"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// Secrets that every namespace has, by name, or has not. What a Secret holds, and who follows it, is internal/app's; a
// world hands out the Inventories to which they would lead.
const (
	secretOfOwn   = "own"   // credentials of the project that the controllers' own are of
	secretOfOther = "other" // credentials of another project
	secretMissing = "missing"
	// secretEntry is an entry of their clouds.yaml, as good as none.
	secretEntry = "entry"
)

// references are those by which a Network of a project may name its cloud, nil among them where the controllers' own
// credentials are of it; wrong are those that lead to another project, or nowhere.
func (w *world) references(project string) (right, wrong []*cloudteamv1.CloudReference) {
	of := func(secret, entry string) *cloudteamv1.CloudReference {
		return &cloudteamv1.CloudReference{SecretName: secret, Name: entry}
	}
	nowhere := of(secretMissing, "")
	if !w.secrets {
		return []*cloudteamv1.CloudReference{nil}, []*cloudteamv1.CloudReference{nowhere}
	}
	own := []*cloudteamv1.CloudReference{nil, of(secretOfOwn, ""), of(secretOfOwn, secretEntry)}
	other := []*cloudteamv1.CloudReference{of(secretOfOther, "")}
	if project == w.own {
		return own, append(other, nowhere)
	}
	return other, append(own, nowhere)
}

// leadsTo is the project to which a reference leads; empty for nowhere.
func (w *world) leadsTo(reference *cloudteamv1.CloudReference) string {
	switch {
	case reference == nil || reference.SecretName == secretOfOwn:
		return w.own
	case reference.SecretName == secretOfOther:
		return otherProject
	}
	return ""
}

// In is managed.Clouds'. What is opened is audited until the world ends.
func (w *world) In(ref managed.CloudRef, _ bool) (managed.Inventory, error) {
	project := w.leadsTo(&cloudteamv1.CloudReference{SecretName: ref.Secret, Name: ref.Entry})
	if project == "" {
		return nil, managed.Waits(controller.Stalled(cloudteamv1.ReasonCredentialsUnavailable, "there is no Secret "+ref.Secret))
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	ref.Namespace = ""
	opened, is := w.opened[ref]
	if !is {
		opened = w.open(project)
		w.opened[ref] = opened
		w.running.Go(func() { opened.Run(w.ctx) })
	}
	return witness{opened, w}, nil
}

// open makes an Inventory of a project. The caller holds mu, where anybody else has the world.
func (w *world) open(project string) *inventory.Inventory {
	audits := new(atomic.Int64)
	w.audits = append(w.audits, audits)
	credentials := w.around.projects[project].credentials
	return inventory.New(client.NewCloud(credentials, client.Options{Transport: w.habits}), w.cluster,
		inventory.Options{
			Interval: auditInterval, Ports: true, Audited: func(inventory.Audit) { audits.Add(1) },
			Moved: func(uid string) { w.networkLoop.Moved(uid); w.portLoop.Moved(uid) },
		})
}

// audited is how many audits of each Inventory have ended.
func (w *world) audited() (counts []int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, audits := range w.audits {
		counts = append(counts, audits.Load())
	}
	return counts
}

// auditedSince is how many audits have ended of that Inventory of which the fewest have.
func (w *world) auditedSince(then []int64) int64 {
	now := w.audited()
	fewest := now[0] - then[0]
	for i, count := range now[1:] {
		if i+1 < len(then) {
			count -= then[i+1]
		}
		fewest = min(fewest, count)
	}
	return fewest
}

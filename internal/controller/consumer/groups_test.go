package consumer

import (
	"strconv"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

func TestGroupsDeclared(t *testing.T) {
	many := make([]string, MaxGroups+1)
	for i := range many {
		many[i] = "g" + strconv.Itoa(i)
	}
	for text, c := range map[string]struct{ want, wrong string }{
		"web":                               {want: "web"},
		"web, db":                           {want: "db,web"},
		"web,web":                           {want: "web"},
		strings.Join(many[:MaxGroups], ","): {want: "g0,g1,g10,g11,g12,g13,g14,g15,g2,g3,g4,g5,g6,g7,g8,g9"},
		"":                                  {wrong: `"" is no name`},
		"web,":                              {wrong: `"" is no name`},
		"other/web":                         {wrong: `"other/web" is no name`},
		"Web":                               {wrong: `"Web" is no name`},
		strings.Join(many, ","):             {wrong: "more than 16 names"},
		strings.Repeat("w", 1<<20):          {wrong: "more than 4080 bytes"},
	} {
		t.Run(text[:min(len(text), 20)], func(t *testing.T) {
			got, err := GroupsDeclared(map[string]string{cloudteamv1.AnnotationSecurityGroups: text})
			if c.wrong == "" && (err != nil || got != c.want) {
				t.Errorf("%q, %v, want %q", got, err, c.want)
			}
			if c.wrong != "" && (err == nil || !strings.Contains(err.Error(), c.wrong) ||
				!strings.HasPrefix(err.Error(), "annotation cloudteam.ztgame.com/security-groups: ") || len(err.Error()) > 512) {
				t.Errorf("the error is %v, want the annotation's name and %q in it", err, c.wrong)
			}
		})
	}
	if got, err := GroupsDeclared(nil); got != "" || err != nil {
		t.Errorf("without the annotation there are %q, %v", got, err)
	}
}

func TestAPortIsMadeInTheGroupsOfItsRequest(t *testing.T) {
	request := Request{Network: cache.NewObjectName("team", "net"), Groups: "db,web"}
	port := NewPort("team", "web-0", metav1.OwnerReference{Kind: "Pod", Name: "web"}, request)
	if got := ServedBy(port); got != request {
		t.Errorf("a port that is made for %+v serves %+v", request, got)
	}
	if port.Spec.SecurityGroupRefs[1] != "web" {
		t.Errorf("it is in %q", port.Spec.SecurityGroupRefs)
	}
	port.Spec.SecurityGroupRefs = []string{"db"}
	if got := ServedBy(port); got != request {
		t.Errorf("after an edit of its groups, it serves %+v", got)
	}
	request.Groups = ""
	if NewPort("team", "web-0", metav1.OwnerReference{}, request).Spec.SecurityGroupRefs != nil {
		t.Error("without groups it has not the default ones")
	}
}

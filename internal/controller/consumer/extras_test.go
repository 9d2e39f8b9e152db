package consumer

import (
	"strconv"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"cloudteam.ztgame.com/network-controller/internal/selection"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/expect"
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
			got, err := ExtrasDeclared(map[string]string{cloudteamv1.AnnotationSecurityGroups: text}, "team", nil)
			wantExtras(t, cloudteamv1.AnnotationSecurityGroups, got, err, Extras{Groups: c.want, namespace: "team"}, c.wrong)
		})
	}
	if got, err := ExtrasDeclared(nil, "team", nil); got != (Extras{namespace: "team"}) || err != nil {
		t.Errorf("without the annotations there are %+v, %v", got, err)
	}
}

// wantExtras holds what an annotation says, or how it is wrong.
func wantExtras(t *testing.T, annotation string, got Extras, err error, want Extras, wrong string) {
	t.Helper()
	if wrong == "" && (err != nil || got != want) {
		t.Errorf("%+v, %v, want %+v", got, err, want)
	}
	if wrong != "" && (err == nil || !strings.Contains(err.Error(), wrong) ||
		!strings.HasPrefix(err.Error(), "annotation "+annotation+": ") || len(err.Error()) > 1024) {
		t.Errorf("the error is %v, want the annotation's name and %q in it", err, wrong)
	}
}

func TestFloatingIPsAreReadFromTheAnnotation(t *testing.T) {
	for text, c := range map[string]struct {
		want, web, db, wrong string
	}{
		"public":                  {want: "=public", web: "public", db: "public"},
		" web = public ":          {want: "web=public", web: "public"},
		"web=public,db=other out": {want: "db=other out,web=public", web: "public", db: "other out"},
		"web=public,web=public":   {want: "web=public", web: "public"},
		"":                        {wrong: `"" names no external network`},
		"web=":                    {wrong: `"web=" names no external network`},
		"public,other":            {wrong: `"public" does not say which Network it is for`},
		"Web=public":              {wrong: `"Web" is no name of a Network`},
		"a/web=public":            {wrong: `"a/web" is no name of a Network`},
		"wbe=public":              {wrong: `"wbe" is no Network of the namespace`},
		"else=public":             {wrong: `"else" is no Network of the namespace`},
		"web=a,web=b":             {wrong: `Network "web" is listed twice`},
		"web=a\x1b[2J":            {wrong: "names no external network"},
		strings.Repeat("w", 256):  {wrong: "names no external network"},
		strings.Repeat("w", 9999): {wrong: "more than 4096 bytes"},
	} {
		t.Run(text[:min(len(text), 20)], func(t *testing.T) {
			lists := []selection.Selection{
				{Namespace: "team", Name: "web"}, {Namespace: "team", Name: "db"}, {Namespace: "other", Name: "web"},
				{Namespace: "other", Name: "else"},
			}
			got, err := ExtrasDeclared(map[string]string{cloudteamv1.AnnotationFloatingIP: text}, "team", lists)
			wantExtras(t, cloudteamv1.AnnotationFloatingIP, got, err, Extras{Floating: c.want, namespace: "team"}, c.wrong)
			elsewhere := RequestOf(selection.Selection{Namespace: "other", Name: "web"}, got).External
			if strings.Contains(text, "=") && elsewhere != "" {
				t.Errorf("a Network of another namespace has a floating IP of %q by the name of one of this", elsewhere)
			}
			for network, external := range map[string]string{"web": c.web, "db": c.db} {
				s := selection.Selection{Namespace: "team", Name: network}
				expect.Equal(t, external, RequestOf(s, got).External, "the external network of %s", network)
			}
		})
	}
}

func TestAPortIsMadeWithTheFloatingIPOfItsRequest(t *testing.T) {
	request := Request{Network: cache.NewObjectName("team", "net"), External: "public"}
	port := NewPort("team", "web-0", metav1.OwnerReference{Kind: "Pod", Name: "web"}, request)
	if got := ServedBy(port); got != request || port.Spec.FloatingIP.ExternalNetwork != "public" {
		t.Errorf("a port that is made for %+v serves %+v, with %v", request, got, port.Spec.FloatingIP)
	}
	port.Spec.FloatingIP = nil
	expect.Equal(t, request, ServedBy(port), "what it serves after an edit of its floating IP")
}

func TestAPortIsMadeInTheGroupsOfItsRequest(t *testing.T) {
	request := Request{Network: cache.NewObjectName("team", "net"), Groups: "db,web"}
	port := NewPort("team", "web-0", metav1.OwnerReference{Kind: "Pod", Name: "web"}, request)
	expect.Equal(t, request, ServedBy(port), "what a port serves that is made for it")
	expect.Equal(t, "web", port.Spec.SecurityGroupRefs[1], "it is in %q", port.Spec.SecurityGroupRefs)
	port.Spec.SecurityGroupRefs = []string{"db"}
	expect.Equal(t, request, ServedBy(port), "what it serves after an edit of its groups")
	request.Groups = ""
	if NewPort("team", "web-0", metav1.OwnerReference{}, request).Spec.SecurityGroupRefs != nil {
		t.Error("without groups it has not the default ones")
	}
}

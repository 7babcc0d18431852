from medtune.benchmarks.facets import age_decade, duration_bin, phase, scanner


def test_groups_have_the_papers_names() -> None:
    assert [duration_bin(seconds) for seconds in (0, 5, 19.9, 1000)] == ["0-5s", "5-10s", "10-20s", ">20s"]
    assert [age_decade(age) for age in (69.9, 90, float("nan"), -1)] == ["60-69", "90-99", None, None]
    assert [scanner(name) for name in ("GE MEDICAL SYSTEMS", "SIEMENS", "Toshiba")] == ["GE", "Siemens", "other"]
    assert [phase(name) for name in ("Portal venous", "Plain", "Delayed", "")] == ["venous", "plain", "delay", "other"]

document.body.textContent = "Greenroom";
